"""`stepwell check` looks at webhooks too, in a folder and as a file of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .conftest import Cli

BAD = "sources:\n  shop: {scheme: strpe, secret: env:SHOP, event: body.type}\n"


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("good.yaml").write_text("workflow: good\nnodes: {a: {}}\n")


def test_a_scheme_that_is_not_there_is_shown_in_its_line_with_those_that_are(cli: Cli) -> None:
    Path("webhooks.yaml").write_text(BAD)
    for path in (".", "webhooks.yaml"):
        result = cli("check", path)
        assert result.exit_code == 1
        place, line, caret, hint, *_ = result.stdout.splitlines()
        assert place == "webhooks.yaml:2:10: error unknown scheme 'strpe' [unknown_scheme]"
        assert line[caret.index("^") :].startswith("scheme: strpe")
        assert hint.startswith("  hint: the schemes are standard-webhooks, stripe, github, ")


def test_good_webhooks_are_no_workflow(cli: Cli) -> None:
    Path("webhooks.yaml").write_text(BAD.replace("strpe", "github"))
    assert cli("check", ".").stdout.splitlines()[-1].startswith("1 workflow, 0 errors, ")
    assert cli("check", "webhooks.yaml").stdout.splitlines()[-1].startswith("0 workflows, 0 errors, ")


def test_a_secret_in_the_file_is_not_printed(cli: Cli) -> None:
    Path("webhooks.yaml").write_text(BAD.replace("strpe", "github").replace("env:SHOP", "hunter2"))
    for options in ((), ("--json",)):
        result = cli("check", ".", *options)
        assert result.exit_code == 1
        assert "hunter2" not in result.stdout
    assert json.loads(result.stdout)[0]["code"] == "bad_secret"
