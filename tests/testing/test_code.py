"""A bad deploy fails no run: in every format, a token whose code cannot be loaded waits for code that can."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from stepwell.errors import Conflict, DefinitionError, InvalidInput
from stepwell.testing.kit import Run, Stepwell

MENDED = """
from stepwell import step, wait_for_event

keys = []

@step(name="send_message")
def send(ctx):
    keys.append((ctx.step, ctx.attempt, ctx.idempotency_key))
    return "sent"

def work(ctx):
    keys.append((ctx.step, ctx.attempt, ctx.idempotency_key))
    return "done"

def refuse():
    raise ValueError("no luck")

def flaky(ctx):
    keys.append((ctx.step, ctx.attempt, ctx.idempotency_key))
    if ctx.attempt == 1:
        raise ValueError("not yet")
    return "done"

def asks(ctx):
    return wait_for_event("paid", then="again") if ctx.resumed is None else ctx.resumed
"""
BROKEN = {
    "SyntaxError": "def work(:\n",
    "ModuleNotFoundError": "import a_module_that_is_not_installed\n",
    "TypeError": "from stepwell import step\n@step(nonsense=1)\ndef work(): pass\n",
    "ZeroDivisionError": "1 / 0\n",
    "SystemExit": "import sys\nsys.exit(1)\n",
    "unknown_step": "def other(): pass\n",
}
FORMATS = {
    "timeline": "workflow: flow\ntimeline: [{name: a, run: python:shop.work}]",
    "nodes": "workflow: flow\nnodes:\n  a: {run: python:shop.work}",
    "steps": "workflow: flow\nsteps: [{name: a, run: python:shop.work}, {name: b, run: python:shop.work}]",
    "actions": "agent: flow\nactions: [{id: a, actionType: send_message}]",
    "named step": "workflow: flow\ntimeline: [{name: a, run: send_message}]",
    "at_most_once": "workflow: flow\ntimeline: [{name: a, run: python:shop.work, at_most_once: true}]",
    "branches": """
workflow: flow
nodes:
  begin: {transitions: [{to: a, foreach: "{{ [1, 2] }}"}]}
  a: {run: python:shop.work}
""",
    "a lock of the run": "workflow: flow\nlock: one\ntimeline: [{name: a, run: python:shop.work}]",
    "a lock of the step": "workflow: flow\ntimeline: [{name: a, run: python:shop.work, lock: one}]",
}
UNDONE = """
workflow: flow
failure_policy: compensate
timeline:
  - {name: a, run: python:shop.work, compensate: {run: python:undo.work, retry: {max_retries: 1, on: [step]}}}
  - {name: b, run: python:shop.refuse}
"""


class Folder:
    """A folder of workflows whose modules a test breaks and mends."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.write(MENDED)
        self.kit = Stepwell(path)

    def write(self, text: str, module: str = "shop") -> None:
        (self._path / f"{module}.py").write_text(text)

    def deploy(self, text: str, module: str = "shop") -> None:
        self.write(text, module)
        with suppress(DefinitionError):  # of a module that Python cannot read: it is deployed all the same
            self.kit.reload()

    def start(self, definition: str, given: Any = None) -> Run:
        self.kit.define(definition)
        return self.kit.start("flow", given)

    @property
    def keys(self) -> list[tuple[str, int, str]]:
        """(step, attempt, idempotency key) of each call of the code that is deployed now."""
        found: list[tuple[str, int, str]] = sys.modules["shop"].keys
        return found


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Folder]:
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = set(sys.modules)
    made = Folder(tmp_path)
    yield made
    made.kit.close()
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


def types(run: Run, *names: str) -> list[str]:
    return [one["type"] for one in run.history if one["type"].endswith(names)]


@pytest.mark.parametrize("definition", FORMATS.values(), ids=FORMATS)
@pytest.mark.parametrize("why", BROKEN)
def test_code_that_cannot_be_loaded_parks_the_run_and_a_deploy_ends_that_at_once(
    folder: Folder, definition: str, why: str
) -> None:
    folder.deploy(BROKEN[why])
    run = folder.start(definition)
    assert (run.status, run.error) == ("waiting", None)
    assert types(run, "failed", "retry_scheduled") == []
    folder.deploy(MENDED)
    assert run.status == "completed"
    assert {attempt for _, attempt, _ in folder.keys} == {1}


@pytest.mark.parametrize("name", ["timeline", "nodes", "steps", "actions", "at_most_once"])
def test_a_run_says_which_code_it_waits_for_and_why(folder: Folder, name: str) -> None:
    folder.deploy(BROKEN["ModuleNotFoundError"])
    run = folder.start(FORMATS[name])
    assert run.waiting_for == "code"
    if name != "steps":
        data = run.view["waiting_data"]
        named = "send_message" if name == "actions" else "python:shop.work"
        assert (data["code"], data["type"]) == (named, "ModuleNotFoundError")
        assert "a_module_that_is_not_installed" in data["message"]
        assert {one["step"] for one in run.history if one["type"] == "step.stuck"} == {"a"}


def test_a_missing_module_parks_the_run_until_it_is_there(folder: Folder) -> None:
    run = folder.start("workflow: flow\ntimeline: [{name: a, run: python:late.work}]")
    assert run.waiting_for == "code"
    folder.deploy(MENDED, "late")
    assert run.status == "completed"


def test_a_broken_module_does_not_hide_the_named_steps_of_others(folder: Folder) -> None:
    folder.deploy(BROKEN["SyntaxError"], "about")
    assert folder.start(FORMATS["named step"]).status == "completed"


def test_input_that_does_not_fit_still_fails_the_step(folder: Folder) -> None:
    folder.deploy("def work(n: int): return n")
    run = folder.start(FORMATS["timeline"], {"n": "many"})
    assert run.status == "failed"
    assert run.error is not None
    assert run.error["type"] == "step_input"


def test_an_import_that_a_running_step_makes_is_the_step_s_own_failure(folder: Folder) -> None:
    folder.deploy("def work(): import a_module_that_is_not_installed")
    assert folder.start(FORMATS["timeline"]).status == "failed"


def test_a_run_looks_for_code_by_itself_less_and_less_often(folder: Folder) -> None:
    folder.write(BROKEN["SyntaxError"])
    run = folder.start(FORMATS["timeline"])
    folder.kit.advance("3h")
    looked = [one["at"][11:16] for one in run.history if one["type"] == "step.stuck"]
    assert looked == ["09:00", "09:01", "09:06", "09:21", "10:21", "11:21"]
    folder.kit._steps.reload()  # as a worker that begins anew: nobody tells of a deploy
    folder.write(MENDED)
    folder.kit.advance("1h")
    assert run.status == "completed"


def test_a_wait_for_code_that_the_last_deploy_ends_at_once_is_logged_once(
    folder: Folder, caplog: pytest.LogCaptureFixture
) -> None:
    """The deploy is kept for a minute, for a worker that had not seen its code: the run tries once more, and waits."""
    folder.deploy(BROKEN["unknown_step"])
    run = folder.start(FORMATS["timeline"])
    assert types(run, "stuck") == ["step.stuck"] * 2
    assert len([line for line in caplog.messages if "waits for code" in line]) == 1
    folder.kit.advance("1m")
    assert len([line for line in caplog.messages if "waits for code" in line]) == 2


def test_a_function_whose_import_fails_is_told_of_once_with_the_lines_of_the_folder(
    folder: Folder, caplog: pytest.LogCaptureFixture
) -> None:
    folder.write("\n1 / 0\n", "prices")
    folder.write("import prices\n")
    run = folder.start("workflow: flow\nfunction: python:shop.work")
    assert run.waiting_for == "code"
    (told,) = [record for record in caplog.records if "division by zero" in record.getMessage()]
    assert told.exc_info is None
    assert told.getMessage().splitlines() == [
        "run_000001 waits for code: python:shop.work: ZeroDivisionError: division by zero at prices.py:2",
        '  File "shop.py", line 1, in <module>',
        "    import prices",
        '  File "prices.py", line 2, in <module>',
        "    1 / 0",
    ]


@pytest.mark.parametrize("definition", [FORMATS["timeline"], "workflow: flow\nfunction: python:shop.work"])
def test_the_line_that_breaks_an_import_is_said_where_the_run_waits(folder: Folder, definition: str) -> None:
    folder.write("\n1 / 0\n")
    run = folder.start(definition)
    assert run.view["waiting_data"]["at"] == "shop.py:2"


def test_the_attempt_after_a_failure_is_the_one_that_waits(folder: Folder) -> None:
    """Neither the attempt's number nor its idempotency key changes, and no retry is used up."""
    retry = "retry: {max_retries: 1, initial_delay: 10s, on: [step]}"
    run = folder.start(f"workflow: flow\ntimeline: [{{name: a, run: python:shop.flaky, {retry}}}]")
    assert run.steps["a"].attempts == 1
    (first,) = folder.keys
    folder.deploy(BROKEN["SyntaxError"])
    folder.kit.advance("10s")
    assert (run.waiting_for, run.view["current_steps"]) == ("code", ["a"])
    folder.deploy(MENDED)
    assert run.status == "completed"
    assert folder.keys == [("a", 2, first[2])]


def test_what_a_step_was_resumed_with_is_kept_while_its_code_is_mended(folder: Folder) -> None:
    run = folder.start("workflow: flow\ntimeline: [{name: a, run: python:shop.asks}]")
    assert run.waiting_for == "event"
    folder.deploy(BROKEN["SyntaxError"])
    run.event("paid", 7)
    assert run.waiting_for == "code"
    folder.deploy(MENDED)
    assert (run.status, run.result) == ("completed", {"event": 7})


@pytest.mark.parametrize("then", ["continue", "fail"])
def test_a_time_out_s_action_waits_for_its_code_before_the_time_out_does_its_work(folder: Folder, then: str) -> None:
    run = folder.start(
        f"""
workflow: flow
timeline:
  - name: a
    wait: {{for: event, name: paid, timeout: 1h, on_timeout: {then}, timeout_actions: [ACTION, ACTION]}}
""".replace("ACTION", "{run: python:shop.work, at_most_once: true}")
    )
    folder.deploy(BROKEN["SyntaxError"])
    folder.kit.advance("1h")
    assert run.waiting_for == "code"
    folder.deploy(MENDED)
    assert run.status == ("completed" if then == "continue" else "timed_out")
    assert [attempt for _, attempt, _ in folder.keys] == [1, 1]


def test_a_compensation_waits_for_its_code_and_uses_up_no_retry(folder: Folder) -> None:
    run = folder.start(UNDONE)
    assert (run.status, run.waiting_for) == ("compensating", "code")
    with pytest.raises(Conflict):
        run.cancel()
    assert types(run, "compensation.failed") == []
    folder.deploy(MENDED.replace("keys = []", "from shop import keys"), "undo")
    assert (run.status, run.steps["a"].status) == ("compensated", "compensated")
    assert [(step, attempt) for step, attempt, _ in folder.keys] == [("a.compensate", 1)]


def test_a_compensation_looks_for_its_code_by_itself(folder: Folder) -> None:
    run = folder.start(UNDONE)
    folder.kit.advance("10s")
    folder.write(MENDED, "undo")
    folder.kit._steps.reload()
    folder.kit.advance("50s")
    assert run.status == "compensated"


@pytest.mark.parametrize(("end", "status"), [(Run.terminate, "failed"), (Run.cancel, "cancelled")])
def test_a_run_that_waits_for_code_can_be_ended(folder: Folder, end: Callable[[Run], bool], status: str) -> None:
    folder.deploy(BROKEN["SyntaxError"])
    run = folder.start(FORMATS["timeline"])
    assert (run.waiting_for, end(run), run.status) == ("code", True, status)
    folder.deploy(MENDED)
    assert run.status == status


def test_a_run_that_waits_to_be_undone_can_be_terminated(folder: Folder) -> None:
    run = folder.start(UNDONE)
    assert (run.waiting_for, run.terminate(), run.status) == ("code", True, "failed")


def test_a_run_s_own_timeout_ends_its_wait_for_code(folder: Folder) -> None:
    folder.deploy(BROKEN["SyntaxError"])
    run = folder.start("workflow: flow\ntimeout: 2h\ntimeline: [{name: a, run: python:shop.work}]")
    folder.kit.advance("2h")
    assert run.status == "timed_out"


def test_a_deploy_wakes_all_that_wait_for_code_and_nothing_else(folder: Folder) -> None:
    folder.deploy(BROKEN["SyntaxError"])
    runs = [folder.start(FORMATS[name]) for name in ("timeline", "branches", "steps")]
    assert {run.status for run in runs} == {"waiting"}
    folder.deploy(BROKEN["ZeroDivisionError"])
    assert {run.status for run in runs} == {"waiting"}
    folder.deploy(MENDED)
    assert {run.status for run in runs} == {"completed"}


def test_nobody_but_stepwell_can_say_that_code_was_deployed(folder: Folder) -> None:
    with pytest.raises(InvalidInput, match="only Stepwell itself"):
        folder.kit.event("stepwell.deployed")


def test_a_wait_for_code_survives_being_stored_as_a_snapshot(folder: Folder) -> None:
    """A snapshot holds what the token stood at before."""
    folder.deploy(BROKEN["SyntaxError"])
    run = folder.start(FORMATS["timeline"])
    folder.kit.advance("3d")  # it has looked 288 times, and a log has a snapshot after 200 records
    folder.deploy(MENDED)
    assert run.status == "completed"
