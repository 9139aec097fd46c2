"""`stepwell webhook test` against a dev server: what each sender would send, and what becomes of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.local.kit import Dev

from .conftest import Cli

SCHEMES = ("standard-webhooks", "stripe", "github", "slack", "shopify", "twilio", "docusign", "hmac", "basic", "none")
SECRETS = {"standard-webhooks": "whsec_bm90IHRoaXMgb25l", "basic": "ana:pass word"}


def _source(scheme: str) -> str:
    secret = "none" if scheme == "none" else f"['ssm:/there', env:TRY_{scheme.partition('-')[0].upper()}]"
    more = ", header: X-Signature, match: body.type == 'paid'" if scheme == "hmac" else ""
    return f"  {scheme}: {{scheme: {scheme}, secret: {secret}, event: body.type{more}}}"


SOURCES = "\n".join(
    [
        "sources:",
        *(_source(scheme) for scheme in SCHEMES),
        "  start: {scheme: github, secret: env:TRY_GITHUB, workflow: quick, id: \"headers['x-github-event']\"}",
        "  away: {scheme: github, secret: 'ssm:/there', event: body.type}",
    ]
)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Dev]:
    folder = tmp_path / "workflows"
    folder.mkdir()
    (folder / "quick.yaml").write_text("workflow: quick\nnodes: {a: {}}\n")
    (folder / "webhooks.yaml").write_text(SOURCES)
    (tmp_path / "body.json").write_text('{"type": "paid", "text": "ä"}\n')
    (tmp_path / "form").write_text("type=paid&text=a+b%C3%A4")
    for scheme in SCHEMES:
        monkeypatch.setenv(f"TRY_{scheme.partition('-')[0].upper()}", SECRETS.get(scheme, "hunter2"))
    monkeypatch.chdir(tmp_path)
    made = Dev(folder, tmp_path / "data")
    yield made
    made.end()


def test_a_body_is_signed_as_each_sender_would_and_taken(
    cli: Cli, server: Dev, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STEPWELL_URL", server.url)
    for scheme in SCHEMES:
        for file in ("body.json", "form"):
            result = cli("webhook", "test", scheme, "-f", file)
            assert result.exit_code == 0, (scheme, file, result.output)
            assert result.stdout.startswith(f"sent as event {scheme}:")

    started = cli("webhook", "test", "start", "-f", "-", "-H", "x-github-event=push", "--json", stdin="{}")
    again = cli("webhook", "test", "start", "-f", "-", "-H", "x-github-event=push", stdin="{}")
    run_id = json.loads(started.stdout)["run_id"]
    assert (again.exit_code, again.stdout) == (0, f"duplicate of the delivery that started {run_id}\n")
    asked = cli("webhook", "test", "slack", "-f", "-", stdin='{"type": "url_verification", "challenge": "abc"}')
    assert asked.stdout == "answered the challenge abc\n"
    for scheme in ("shopify", "twilio"):  # the one answers JSON, the other the words of its sender
        told = [cli("webhook", "test", scheme, "-f", "body.json", "--id", "d-1").stdout for _ in range(2)]
        assert told == [f"sent as event {scheme}:d-1\n", f"duplicate of event {scheme}:d-1\n"]
    ignored = cli("webhook", "test", "stripe", "-f", "body.json", "--id", "d-1")
    assert (ignored.exit_code, "sends no id, so --id would change nothing" in ignored.stderr) == (2, True)
    other = cli("webhook", "test", "hmac", "-f", "-", stdin='{"type": "other"}')
    assert other.stdout == "ignored: the source's `match` is false\n"

    monkeypatch.setenv("TRY_STRIPE", "not what the server has")
    refused = cli("webhook", "test", "stripe", "-f", "body.json")
    assert (refused.exit_code, "[bad_signature]" in refused.stderr) == (3, True)
    unmapped = cli("webhook", "test", "github", "-f", "-", stdin="{}")
    assert (unmapped.exit_code, "[unmappable]" in unmapped.stderr) == (3, True)
    assert "hunter2" not in server.errors


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("strpe", "-f", "body.json"), "did you mean `stripe`?"),
        (("away", "-f", "body.json"), "no secret of away can be read here: ssm:/there"),
        (("stripe", "-f", "nothing.json"), "cannot read nothing.json: no such file or directory [unreadable]"),
        (("stripe", "-f", "nothing.json"), "look for a misspelt name in this path"),
    ],
)
def test_what_cannot_be_sent_is_told(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("webhooks.yaml").write_text(SOURCES)
    Path("body.json").write_text("{}")
    result = cli("webhook", "test", *arguments)
    assert result.exit_code == 2
    assert told in result.stderr


def test_a_webhooks_file_with_errors_is_not_sent_by(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("webhooks.yaml").write_text("sources:\n  s: {scheme: none, event: body.type}\n")
    Path("body.json").write_text("{}")
    result = cli("webhook", "test", "s", "-f", "body.json")
    assert result.exit_code == 2
    assert "write both scheme: none and secret: none" in result.stderr
