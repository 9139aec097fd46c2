"""The first mistakes of somebody who writes workflows: `check` names the line, what was expected, and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import Cli

STEP = '{name: a, run: "python:s.a", timeout: 5s'
FUNCTION = """from stepwell import step, workflow

@step
def a(x: int) -> int:
    return x

@workflow
async def w(ctx):
    await CALL
"""


@pytest.mark.parametrize(
    ("text", "line", "said", "hint"),
    [
        (f"timelin:\n  - {STEP}}}\n", 2, "unknown key `timelin`", "did you mean `timeline`?"),
        ("start: b\nnodes: {a: {run: 'python:s.a'}}\n", 2, "`start` names `b`, which does not exist", ""),
        ("nodes:\n  - {name: a}\n", 2, "`nodes` must be a mapping, not a list", "write each node under its name"),
        (f"timeline: {STEP}}}\n", 2, "`timeline` must be a list, not a mapping", "begin each entry"),
        (f"timeline:\n\t- {STEP}}}\n", 3, "not readable as YAML", "indent with spaces"),
        ("timeline:\n  - {name: a, timeout: 5s}\n", 3, "`timeout` needs a `run`", "add run: python:module.function"),
        (f"timeline:\n  - {STEP} minuts}}\n", 3, "'5s minuts' is not a duration", "write 30s, 5m, 24h"),
        (f"timeline:\n  - {STEP}, retry: {{max_retries: three}}}}\n", 3, "must be a whole number", "write a number"),
        (f"timeline:\n  - {STEP}, retry: {{max_retry: 3}}}}\n", 3, "unknown key `max_retry`", "`max_retries`"),
        (f"timeline:\n  - {STEP}}}\n  - {STEP}}}\n", 4, "two entries are named `a`", "rename one"),
        (f"timeline:\n  - {STEP}, input: {{x: '{{{{ inptu }}}}'}}}}\n", 3, "unknown name `inptu`", "`input`"),
    ],
)
def test_a_mistake_of_a_definition(cli: Cli, tmp_path: Path, text: str, line: int, said: str, hint: str) -> None:
    (tmp_path / "s.py").write_text("def a():\n    return 1\n")
    (tmp_path / "w.yaml").write_text(f"workflow: w\n{text}")
    told = cli("check", str(tmp_path)).stdout
    assert f"w.yaml:{line}:" in told
    assert said in told
    assert hint in told


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ('ctx.sleep("5 minuts")', "'5 minuts' is not a duration [bad_duration]"),
        ('ctx.step(a, 1, timeout="1 hor")', "'1 hor' is not a duration [bad_duration]"),
        ('ctx.event("paid", timeout="1 hor")', "'1 hor' is not a duration [bad_duration]"),
        ("ctx.stp(a, 1)", "ctx has no 'stp' [unknown_operation]"),
    ],
)
def test_a_mistake_of_a_function(cli: Cli, tmp_path: Path, call: str, said: str) -> None:
    (tmp_path / "w.py").write_text(FUNCTION.replace("CALL", call))
    result = cli("check", str(tmp_path))
    assert (result.exit_code, said in result.stdout, "w.py:9:" in result.stdout) == (1, True, True), result.output
    assert "  hint: " in result.stdout


def test_a_duration_that_is_one_is_no_mistake(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "w.py").write_text(FUNCTION.replace("CALL", 'ctx.sleep("5m")'))
    assert cli("check", str(tmp_path)).exit_code == 0


OPTIONS = """from stepwell import workflow

@workflow(
    timeuot="1d",
    triggers=[
        {"schedule": "0 6 * * *"},
        {"event": "paid", "ovrlap": "skip"},
    ],
    concurrency={
        "limit": "2",
    },
)
async def w(ctx): ...
"""


def test_a_mistake_in_an_option_of_a_workflow_is_told_where_it_is_written(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(OPTIONS)
    told = cli("check", str(tmp_path)).stdout
    for place, said in (
        ("4:5", "unknown key `timeuot`"),
        ("7:27", "unknown key `ovrlap`"),
        ("10:9", "`limit` must be"),
    ):
        assert f"m.py:{place}: error {said}" in told


def test_a_workflow_with_a_mistake_is_a_workflow(cli: Cli, tmp_path: Path) -> None:
    for text in (OPTIONS, "from stepwell import workflow\n@workflow\ndef w(ctx): ...\n"):
        (tmp_path / "m.py").write_text(text)
        told = cli("check", str(tmp_path)).stdout
        assert "no_workflows" not in told
        assert "\n1 workflow, " in told


def test_a_folder_whose_only_module_cannot_be_read_is_not_said_to_be_empty(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text("from stepwell import workflow\n@workflow\nasync def w(ctx) ...\n")
    told = cli("check", str(tmp_path)).stdout
    assert "no_workflows" not in told
    place, line, caret, *_ = told.splitlines()
    assert place.endswith("m.py:3:18: error Python cannot compile the module: expected ':' [bad_syntax]")
    assert line[caret.index("^") :] == "..."


def test_the_mistakes_of_a_file_are_told_from_its_first_line_to_its_last(cli: Cli, tmp_path: Path) -> None:
    """Those of imports, of the code and of options are found one after the other."""
    call = 'ctx.step(a, 1, timeout="1 hor", retry=5)\n    await ctx.stp(a, 1)'
    (tmp_path / "m.py").write_text(
        "import nowhere\n" + FUNCTION.replace("CALL", call).replace("@step", "@step(rety=1)")
    )
    told = cli("check", str(tmp_path)).stdout
    lines = [int(line.split(":")[1]) for line in told.splitlines() if "m.py:" in line]
    assert lines == [1, 4, 10, 10, 11]
