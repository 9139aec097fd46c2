"""What the code of a run logs and prints: on the server's screen, in the data folder, and by `stepwell logs`."""

from __future__ import annotations

import json
import logging
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from stepwell.cli.main import app
from stepwell.errors import InvalidInput
from stepwell.limits import LOG_LINE_CHARACTERS
from stepwell.local import log_files
from stepwell.local.ids import short
from stepwell.local.log_files import LocalRunLogs, LogFile
from stepwell.local.run_logs import Lines, OwnFrames
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.steps.registry import Registry
from stepwell.runtime.steps.secrets import READ
from stepwell.runtime.stores.log_lines import Asked, LogLine
from tests.local.kit import Dev, until

STEPS = """
import logging
import time

from stepwell import External

log = logging.getLogger(__name__)


def speak(name, ctx):
    print("hello", name)
    log.info("from a module's logger")
    ctx.logger.warning("from the step's %s", "logger")
    print("without an end", end="")
    return {}


async def fail():
    print("soon")
    raise RuntimeError("oh no")


def refuse(kind):
    raise External(f"{kind}: not today")


def go_on():
    print("goes on")
"""
FUNCTION = """
from stepwell import workflow


def double(n):
    print("doubling", n)
    return 2 * n


@workflow
async def counter(ctx, n: int):
    ctx.log.info("begins")
    return await ctx.step(double, n)


@workflow
async def mapped(ctx, items: list[int]):
    return await ctx.map(double, items)
"""
EACH = """
workflow: each
nodes:
  begin: {transitions: [{to: double, foreach: "{{ input.items }}", as: n}]}
  double: {run: python:counter.double, input: {n: "{{ state.n }}"}, timeout: 10s, transitions: [{to: join}]}
  join: {fan_in: {policy: all}}
"""
TALK = """
workflow: talk
timeline:
  - {name: speak, run: python:talk.speak, timeout: 10s}
  - {name: fail, run: python:talk.fail, timeout: 10s}
"""
REFUSED = """
workflow: refused
timeline:
  - {name: refuse, run: python:talk.refuse, timeout: 10s}
"""
HANDLED = """
workflow: handled
timeline:
  - name: refuse
    run: python:talk.refuse
    timeout: 10s
    diverge: [{when: "has(error.type)", continue: true}]
  - {name: go_on, run: python:talk.go_on, timeout: 10s}
"""
RETRIED = """
workflow: retried
timeline:
  - {name: refuse, run: python:talk.refuse, timeout: 10s, retry: {on: [external], max_retries: 1, initial_delay: 0.1s}}
"""
QUIET = """
workflow: quiet
timeline:
  - {name: nap, sleep: 0.1s}
"""


@pytest.fixture(scope="module")
def dev(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dev]:
    folder = tmp_path_factory.mktemp("logs")
    for name, text in (("talk.py", STEPS), ("talk.yaml", TALK), ("counter.py", FUNCTION), ("quiet.yaml", QUIET),
                       ("each.yaml", EACH), ("refused.yaml", REFUSED), ("handled.yaml", HANDLED),
                       ("retried.yaml", RETRIED)):  # fmt: skip
        (folder / name).write_text(text)
    dev = Dev(folder, folder / ".data")
    yield dev
    dev.end()


def _ran(dev: Dev, workflow: str, given: object) -> str:
    _, run = dev.call("POST", f"/workflows/{workflow}/runs", {"input": given})
    until(lambda: dev.status(run["run_id"]) in {"completed", "failed"}, "it ends")
    return str(run["run_id"])


def _logs(dev: Dev, *words: str) -> str:
    done = CliRunner().invoke(app, ["logs", *words, "--url", dev.url], catch_exceptions=False)
    assert done.exit_code == 0
    return done.output


def test_what_a_step_prints_and_logs_is_shown_with_its_run_and_step(dev: Dev) -> None:
    """A line of the engine begins with the end of the run's id as well."""
    run_id = _ran(dev, "talk", {"name": "ana"})
    lines = dev.errors.splitlines()
    mark = short(run_id)
    for text in ("hello ana", "from a module's logger", "from the step's logger", "without an end"):
        assert any(line.endswith(f" {mark} speak: {text}") for line in lines), text
    assert any(line.endswith(f" W {mark} fail failed: RuntimeError: oh no") for line in lines)


@pytest.mark.parametrize(("workflow", "attempts"), [("refused", 0), ("handled", 1), ("retried", 1)])
def test_a_failure_that_ends_the_run_is_told_once_by_the_runs_own_line(dev: Dev, workflow: str, attempts: int) -> None:
    """The line of an attempt has no more than it. Where the run goes on after the failure, it is the only one.

    The line of an attempt says when the step is tried again, if it is.
    """
    run_id = _ran(dev, workflow, {"kind": workflow})
    until(lambda: f"{short(run_id)} {workflow}: {dev.status(run_id)} after" in dev.errors, "the run's line")
    found = [line for line in dev.errors.splitlines() if f"External: {workflow}: not today" in line]
    ends = [line for line in found if line.endswith(f": External: {workflow}: not today (step refuse)")]
    assert [line for line in found if line not in ends] == found[:attempts]
    assert len(ends) == (workflow != "handled")
    again = "; tried again in 0.1 s (attempt 2 of 2)" if workflow == "retried" else ""
    said = f" W {short(run_id)} refuse failed: External: {workflow}: not today{again}"
    assert all(line.endswith(said) for line in found[:attempts])
    assert dev.errors.count(" refuse is tried again") == 0
    told = [json.loads(line)["message"] for line in _logs(dev, run_id, "--json").splitlines()]
    assert sum("not today" in line for line in told) == 1 + (workflow == "retried")


def test_logs_shows_the_lines_of_one_run_in_order(dev: Dev) -> None:
    """The error of the step is among them, with its traceback."""
    _ran(dev, "talk", {"name": "cleo"})
    run_id = _ran(dev, "talk", {"name": "ben"})
    lines = [json.loads(line) for line in _logs(dev, run_id, "--json").splitlines()]
    assert [(line["step"], line["level"], line["message"]) for line in lines[:5]] == [
        ("speak", "info", "hello ben"),
        ("speak", "info", "from a module's logger"),
        ("speak", "warning", "from the step's logger"),
        ("speak", "info", "without an end"),
        ("fail", "info", "soon"),
    ]
    first, *frames = lines[5]["message"].splitlines()[1:]
    assert first == "Traceback (most recent call last):"
    assert frames[0].endswith("in fail")  # the user's own code
    assert len(lines) == 6
    assert "speak  hello ben" in _logs(dev, "last")


def test_logs_are_followed_until_the_run_ends(dev: Dev) -> None:
    """The lines of a durable function and of its steps are among them, each once."""
    run_id = _ran(dev, "counter", {"n": 3})
    told = [json.loads(line) for line in _logs(dev, run_id, "--follow", "--json").splitlines()]
    assert [(line["step"], line["message"]) for line in told] == [(None, "begins"), ("double", "doubling 3")]


@pytest.mark.parametrize("workflow", ["each", "mapped"])
def test_the_lines_of_a_fork_name_their_branches(dev: Dev, workflow: str) -> None:
    """As the list of the branches does, which has the item of each branch of a definition."""
    run_id = _ran(dev, workflow, {"items": [4, 5]})
    lines = [json.loads(line) for line in _logs(dev, run_id, "--json").splitlines()]
    listed = dev.call("GET", f"/runs/{run_id}/branches?fork=0/0")[1]["items"]
    told = {line["message"]: line["branch"] for line in lines}
    assert told == {f"doubling {n}": one["id"] for n, one in zip((4, 5), listed, strict=True)}
    assert all(line["step"] == "double" for line in lines)
    assert f"double {listed[0]['id']}  doubling 4" in _logs(dev, run_id)
    assert any(
        line.endswith(f" {short(run_id)} double {listed[1]['id']}: doubling 5") for line in dev.errors.splitlines()
    )


def test_lines_are_kept_out_of_records(dev: Dev) -> None:
    run_id = _ran(dev, "talk", {"name": "dora"})
    history = json.dumps(dev.call("GET", f"/runs/{run_id}/history")[1])
    assert "from a module's logger" not in history


def test_a_run_that_logged_nothing_says_so(dev: Dev) -> None:
    run_id = _ran(dev, "quiet", {})
    done = CliRunner().invoke(app, ["logs", run_id, "--url", dev.url])
    assert (done.exit_code, done.stdout) == (0, "")
    assert "logged nothing" in done.stderr


def test_the_file_is_bounded_and_the_owners_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest lines go first, and a huge line is cut."""
    monkeypatch.setattr(log_files, "LOG_FILE_BYTES", 30_000)
    file = LogFile(tmp_path)
    for number in range(1000):
        file.handle(_record(f"line {number}"))
    file.handle(_record("x" * 2 * LOG_LINE_CHARACTERS))
    file.close()
    kept = list(tmp_path.iterdir())
    assert len(kept) == 2
    assert all(path.stat().st_size <= 30_000 for path in kept)
    assert {stat.S_IMODE(path.stat().st_mode) for path in kept} == {0o600}
    lines = _kept(tmp_path, "run_1", 500)
    assert len(lines[-1].message) == LOG_LINE_CHARACTERS
    assert lines[-2].message == "line 999"
    assert _kept(tmp_path, "run_2") == []


def test_lines_are_read_page_by_page(tmp_path: Path) -> None:
    file, logs = LogFile(tmp_path), LocalRunLogs(tmp_path)
    for number in range(5):
        file.handle(_record(f"line {number}"))
    file.close()
    found: list[str] = []
    cursor, pages = "", 0
    while pages == 0 or cursor:
        page = run_now(logs.read(Asked("run_1", 0, None, 2, cursor)))
        found, cursor, pages = [*found, *(one.message for one in page.lines)], page.next_cursor, pages + 1
    assert (found, pages) == ([f"line {number}" for number in range(5)], 3)


@pytest.mark.parametrize("cursor", ["x", "-1", "9" * 5_000, "\u0663"])
def test_a_cursor_of_another_list_is_refused(tmp_path: Path, cursor: str) -> None:
    with pytest.raises(InvalidInput, match="cursor"):
        run_now(LocalRunLogs(tmp_path).read(Asked("run_1", 0, None, 2, cursor)))


def test_a_secret_that_a_step_has_read_is_in_no_line(tmp_path: Path) -> None:
    READ.add("s3cret-of-this-test")
    try:
        file = LogFile(tmp_path)
        file.handle(_record("calls with s3cret-of-this-test"))
        file.close()
    finally:
        READ.discard("s3cret-of-this-test")
    assert [one.message for one in _kept(tmp_path, "run_1")] == ["calls with [secret]"]


def _kept(data: Path, run_id: str, limit: int = 100) -> Sequence[LogLine]:
    return run_now(LocalRunLogs(data).read(Asked(run_id, 0, None, limit))).lines


def test_a_line_about_no_run_is_not_kept(tmp_path: Path) -> None:
    file = LogFile(tmp_path)
    file.handle(logging.LogRecord("shop", logging.INFO, "", 0, "starting", None, None))
    file.close()
    assert list(tmp_path.iterdir()) == []


def _record(message: str, run_id: str = "run_1") -> logging.LogRecord:
    record = logging.LogRecord("shop", logging.INFO, "", 0, message, None, None)
    record.run_id = run_id
    return record


def test_a_traceback_of_an_import_begins_with_users_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_prices.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ZeroDivisionError) as raised:
        Registry(tmp_path).function("python:broken_prices.work")
    _, *frames = OwnFrames().formatException((raised.type, raised.value, raised.tb.tb_next)).splitlines()
    assert [line for line in frames if line.startswith("  File")] == [
        f'  File "{tmp_path / "broken_prices.py"}", line 1, in <module>'
    ]


def test_data_in_a_line_cannot_control_the_terminal_and_colours_stay() -> None:
    told = "\x1b[31mred\x1b[0m\tone\ntwo \x1b]0;title\x07 \x1b[2J \x9b2J \x00 \u202egnp.exe \rgone"
    record = logging.LogRecord("stepwell.runs", logging.WARNING, __file__, 1, "%s", (told,), None)
    written = Lines().format(record)
    shown = "\x1b[31mred\x1b[0m\tone\ntwo \\x1b]0;title\\x07 \\x1b[2J \\x9b2J \\x00 \\x202egnp.exe \\x0dgone"
    assert written.endswith(shown)
