"""`stepwell.testing.verify`: a user's workflow under crashes at every write, and doubled messages in any order."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from stepwell.errors import UserError
from stepwell.memory.inbox import Delivery
from stepwell.memory.queue import MemoryQueue
from stepwell.runtime.ports import Lane
from stepwell.testing.verify import Report, Verdict, chaos, verify
from stepwell.testing.verify.chaos import ShuffledQueue

STEPS = """
import json, os, random, socket, subprocess
from pathlib import Path
from stepwell import step, workflow, StepContext

PAID = []

def once(ctx: StepContext):
    seen = json.loads(Path("seen.json").read_text()) if Path("seen.json").exists() else []
    if ctx.idempotency_key + ctx.step not in seen:
        Path("seen.json").write_text(json.dumps([*seen, ctx.idempotency_key + ctx.step]))
    return "done"

def pay():
    with open("paid.txt", "a") as out: out.write("paid ")

def count():
    PAID.append(1)
    return len(PAID)

def token(): return random.random()

def connect(): socket.create_connection(("127.0.0.1", 9))
def spawn(): subprocess.run(["true"])
def write(): Path.home().joinpath("written").write_text("")
def says(ctx: StepContext):
    ctx.emit("working")
    return "said"
def yields():
    yield "working"
    return "yielded"
def undo(): Path("undone.txt").write_text("yes")
def fails(): raise ValueError("no")

@workflow
async def durable(ctx):
    await ctx.step(pay)
    await ctx.approval()
    await ctx.run(yields)
    return [await ctx.run(lambda: 1, name="one"), await ctx.event("paid", timeout="1h")]

@workflow
async def asks(ctx):
    first = await ctx.approval("first", approvers=["ana", "leo"], timeout="1d")
    both = await ctx.all(
        ctx.approval("two", approvers=["ana", "leo"], need=2, timeout="1d"),
        ctx.approval("one", approvers=["leo"], timeout="1d"),
    )
    return [first["by"], [[vote["by"] for vote in both[0]["votes"]], both[1]["by"]]]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "flows"
    place.mkdir()
    (place / "acts.py").write_text(STEPS)
    return place


def verified(folder: Path, text: str, **more: Any) -> Report:
    """The report of a timeline with this text, called `w`."""
    (folder / "w.yaml").write_text(f"workflow: w\n{text}")
    return verify(folder, "w", {}, **{"shuffles": 4, **more})


def verdict(report: Report, step: str) -> Verdict:
    return next(one.verdict for one in report.steps if one.step == step)


def chain(*runs: str) -> str:
    lines = "".join(f"  - {{name: s{index}, run: python:acts.{run}}}\n" for index, run in enumerate(runs))
    return f"timeline:\n{lines}"


def test_the_limits_of_the_folder_hold_here_too(folder: Path) -> None:
    (folder / "limits.yaml").write_text("limits: {shop: {concurrency: 1}}\n")
    report = verified(folder, "timeline: [{name: s0, run: python:acts.once, throttle: shop}]\n")
    assert report.holds, report


def test_a_step_that_looks_for_what_it_made_is_idempotent(folder: Path) -> None:
    report = verified(folder, chain("once", "once"))
    assert report.holds, report
    assert {verdict(report, "s0"), verdict(report, "s1")} == {Verdict.IDEMPOTENT}
    assert report.crashes > report.writes > 4


def test_a_step_that_changes_the_outside_again_is_named_with_the_schedule(folder: Path) -> None:
    report = verified(folder, chain("once", "pay"), shuffles=0)
    assert not report.holds
    (bad,) = [one for one in report.steps if one.verdict.is_bad]
    assert (bad.step, bad.verdict) == ("s1", Verdict.EFFECT_TWICE)
    assert "paid.txt" in bad.evidence
    assert "dies before" in bad.schedule
    assert {one.what for one in report.broken} == {"effects"}


def test_a_result_that_depends_on_how_often_it_ran_is_told_from_one_of_chance(folder: Path) -> None:
    report = verified(folder, chain("token"))
    assert verdict(report, "s0") is Verdict.VARIES
    assert any("s0 returns something else" in note for note in report.notes)
    assert report.holds, report
    kept: list[int] = []
    counted = verified(
        folder, chain("once"), steps={"s0": lambda _: len(kept) or kept.append(1) or 0}, reset=kept.clear
    )
    assert verdict(counted, "s0") is Verdict.OTHER_RESULT


def test_a_step_with_live_output_is_verified(folder: Path) -> None:
    """It failed, since a step cannot stop where its output is written, as the ports of a verification do."""
    report = verified(folder, chain("says", "yields"))
    assert report.holds, report


def test_a_crash_forgets_what_a_module_held_in_memory(folder: Path) -> None:
    """`count` remembers in its module; in a new process it begins anew, and so it does in each fresh run."""
    report = verified(folder, chain("count"), shuffles=0)
    assert report.undisturbed["result"] == 1
    assert report.holds, report


def test_a_world_of_the_users_own_is_looked_at(folder: Path) -> None:
    bank: list[int] = []
    report = verified(folder, chain("once"), steps={"once": bank.append}, world=lambda: bank, reset=bank.clear)
    assert verdict(report, "s0") is Verdict.EFFECT_TWICE
    ignoring = verified(folder, chain("once"), steps={"once": bank.append}, world=lambda: bank, reset=bank.clear,
                        ignore=["world*"])  # fmt: skip
    assert ignoring.holds, ignoring


def test_a_world_needs_a_beginning(folder: Path) -> None:
    with pytest.raises(UserError, match="reset"):
        verified(folder, chain("once"), world=list)


@pytest.mark.parametrize(("run", "what"), [("connect", "network"), ("spawn", "process"), ("write", "file")])
def test_a_step_that_reaches_outside_is_not_let_and_nothing_is_verified(
    folder: Path, run: str, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = folder.parent / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr(tempfile, "tempdir", str(folder.parent / "temporary"))
    (folder.parent / "temporary").mkdir()
    with pytest.raises(UserError) as refused:
        verified(folder, chain(run))
    assert refused.value.code == "reaches_outside"
    assert what in refused.value.message
    assert not (home / "written").exists()


def test_what_was_replaced_or_cannot_be_called_is_said(folder: Path) -> None:
    report = verified(
        folder,
        "timeline:\n  - {name: a, run: python:acts.connect}\n  - {name: b, run: 'http:GET https://example.com/x'}\n",
        steps={"a": {"ok": True}},
    )
    assert (report.called, report.left_out) == ((), ("b",))
    assert verdict(report, "a") is verdict(report, "b") is Verdict.REPLACED
    assert report.holds, report


def test_compensations_are_compared_and_must_be_idempotent_too(folder: Path) -> None:
    text = """
steps:
  - {name: a, run: python:acts.once, on_failure: compensate}
  - {name: b, run: python:acts.once, depends_on: [a], on_failure: compensate}
compensation:
  - {step: a, run: python:acts.%s}
"""
    good = verified(folder, text % "undo", fails=["b"])
    assert good.holds, good
    assert good.undisturbed["status"] == "compensated"
    assert verdict(good, "a.compensate") is Verdict.IDEMPOTENT
    bad = verified(folder, text % "pay", fails=["b"])
    assert verdict(bad, "a.compensate") is Verdict.EFFECT_TWICE


def test_a_workflow_whose_undisturbed_run_fails_does_not_hold(folder: Path) -> None:
    """What comes after the failure was never tried. A failure that was asked for is none."""
    report = verified(folder, chain("once", "fails", "once"))
    assert (report.holds, report.breaks) == (False, False)
    assert report.failed == "ended as failed (ValueError at s1)"
    assert str(report).startswith("w: PROVES NOTHING: its undisturbed run ended as failed (ValueError at s1); ")
    assert verified(folder, chain("once", "fails"), may_fail=True).holds
    assert verified(folder, chain("once", "once"), fails=["s1"]).holds


def test_a_step_that_may_run_at_most_once_may_be_lost_and_that_is_no_fault(folder: Path) -> None:
    report = verified(folder, "timeline:\n  - {name: a, run: python:acts.pay, at_most_once: true, timeout: 1m}\n")
    assert verdict(report, "a") is Verdict.LOST
    assert report.holds, report


def test_a_step_that_is_lost_is_no_fault_where_the_workflow_goes_on(folder: Path) -> None:
    """Such a run has another result, since the workflow handles the error."""
    lost = "{name: a, run: python:acts.pay, at_most_once: true, timeout: 1m, on_failure: skip}"
    report = verified(folder, f"timeline:\n  - {lost}\n  - {{name: b, run: python:acts.once, timeout: 1m}}\n")
    assert verdict(report, "a") is Verdict.LOST
    assert report.holds, report


def test_waits_are_answered_in_the_order_of_the_script(folder: Path) -> None:
    text = """
timeline:
  - {name: ask, wait: {for: approval, timeout: 1d}}
  - {name: paid, wait: {for: event, name: paid, timeout: 1d}}
"""
    answers = [{"approve": {"by": "ana", "data": 1}}, {"event": {"name": "paid", "payload": 80}, "after": "3h"}]
    report = verified(folder, text, answers=answers)
    assert report.undisturbed["status"] == "completed", report
    assert report.undisturbed["result"] == 80
    assert report.holds, report
    refused = verified(folder, text, answers=[{"reject": {"reason": "no"}}])
    assert refused.undisturbed["error"] == {"type": "rejected", "step": "ask"}
    silent = verified(folder, text)
    assert silent.undisturbed["error"]["type"] == "approval_timeout"


def test_approve_all_finds_the_approvals_of_branches(folder: Path) -> None:
    text = """
steps:
  - {name: a, wait: {for: approval, timeout: 1d}}
  - {name: b, wait: {for: approval, timeout: 1d}}
  - {name: c, run: python:acts.once, depends_on: [a, b]}
"""
    report = verified(folder, text, approve_all=True)
    assert report.undisturbed["status"] == "completed"
    assert report.holds, report


NAMED = """
timeline:
  - {name: one, wait: {for: approval, timeout: 1d, approvers: {need: 1, of: [ana, leo, kim]}}}
  - {name: two, wait: {for: approval, timeout: 1d, approvers: {need: 2, of: [ana, leo, kim]}}}
  - {name: any, wait: {for: approval, timeout: 1d, approvers: {need: 2}}}
"""


def test_approve_all_approves_as_the_named_people_as_many_as_are_needed(folder: Path) -> None:
    """Where several must agree and none is named, as people of any names."""
    report = verified(folder, NAMED, approve_all=True, shuffles=2, most_crashes=10)
    assert report.undisturbed["status"] == "completed", report
    assert [one["by"] for one in report.undisturbed["result"]["votes"]] == ["approver-1", "approver-2"]
    assert report.holds, report


def test_approve_all_approves_the_named_approvals_of_functions(folder: Path) -> None:
    report = verify(folder, "asks", {}, approve_all=True, shuffles=2, most_crashes=10)
    assert report.undisturbed["result"] == ["ana", [["ana", "leo"], "leo"]], report
    assert report.holds, report


def test_an_answers_file_delegates(folder: Path) -> None:
    answers = [{"approve": {"by": "ana"}}, {"delegate": {"by": "leo", "to": "bea"}}, {"approve": {"by": "bea"}}]
    report = verified(folder, ESCALATED, answers=answers, shuffles=2, most_crashes=10)
    assert [one["by"] for one in report.undisturbed["result"]["votes"]] == ["ana", "bea"], report
    assert report.holds, report


def test_a_durable_function_is_verified_like_a_graph(folder: Path) -> None:
    report = verify(
        folder, "durable", {}, approve_all=True, answers=[{"event": {"name": "paid", "payload": 5}}], shuffles=6
    )
    assert report.undisturbed["result"] == [1, 5]
    assert verdict(report, "pay") is Verdict.EFFECT_TWICE
    assert {one.what for one in report.broken} == {"effects"}


@pytest.mark.parametrize(
    "answers",
    [[{"approve": {}, "reject": {}}], [{"event": {}}], [{"delegate": {"by": "ana"}}], [{"wait": 1}], ["x"]],
)
def test_a_bad_answer_is_refused_with_its_place(folder: Path, answers: list[Any]) -> None:
    with pytest.raises(UserError, match=r"answers\[0\]"):
        verified(folder, chain("once"), answers=answers)


def _forget(self: ShuffledQueue, delivery: Delivery, at_ms: int) -> None:
    self.delete(delivery)


def test_an_engine_that_loses_a_message_when_a_worker_dies_does_not_hold(folder: Path) -> None:
    """The check can fail: here the queue forgets what a dead worker held."""
    with mock.patch.object(ShuffledQueue, "release", _forget):
        report = verified(folder, chain("once", "once"), shuffles=0)
    assert {one.what for one in report.broken} == {"status", "effects"}


def test_the_time_is_bounded_and_the_rest_is_said(folder: Path) -> None:
    """Where it was too short for any schedule, nothing is proven."""
    report = verified(folder, chain("once"), seconds=0)
    assert report.left > 0
    assert any("too short" in note for note in report.notes)
    assert report.verdict == "proves nothing: its undisturbed run took all of the time"


ESCALATED = """
timeline:
  - name: ask
    wait:
      for: approval
      timeout: 1d
      approvers: {need: 2, of: [ana, leo]}
      escalate: {after: 4h, to: [boss]}
"""


def test_a_timer_that_looks_again_every_15_minutes_does_not_double_each_time(folder: Path) -> None:
    """The escalation's timers look again until the wait's time limit: 2 ** 80 messages, if each came twice."""
    with mock.patch.object(chaos, "MOST_STOPS", 1_000):
        report = verified(folder, ESCALATED, answers=[{"approve": {"by": "ana"}}], most_crashes=0)
    assert (report.shuffles, report.left) == (4, 0)
    assert report.broken == ()


def test_an_answer_that_was_refused_is_given_again_though_its_worker_died(folder: Path) -> None:
    """In the schedule of seed 3, a worker dies in the call of the boss, who is not asked yet."""
    report = verified(folder, ESCALATED, answers=[{"approve": {"by": "ana"}}, {"approve": {"by": "boss"}}])
    assert report.undisturbed["status"] == "completed"
    assert report.holds, report


@contextmanager
def clocked(ticks: Iterator[float]) -> Iterator[None]:
    """The clock of `verify` alone: servers of other tests may run in this process."""
    own = SimpleNamespace(monotonic=lambda: next(ticks))
    with mock.patch.object(sys.modules[verify.__module__], "time", own), mock.patch.object(chaos, "time", own):
        yield


def test_a_schedule_that_outlasts_the_time_is_left_out(folder: Path) -> None:
    """Here messages come many times, and each look at the clock takes a fortieth of a second."""
    ticks = (number / 40 for number in count())

    def doubled(self: ShuffledQueue, lane: Lane, text: str, due_ms: int) -> None:
        for _ in range(self._copies):
            MemoryQueue._put(self, lane, text, due_ms)

    with mock.patch.object(ShuffledQueue, "_put", doubled), clocked(ticks):
        report = verified(folder, ESCALATED, answers=[{"approve": {"by": "ana"}}], seconds=20, most_crashes=5)
    assert 0 < report.left < 9 == report.crashes + report.shuffles + report.left
    assert report.notes[0] == f"the time was too short for {report.left} more schedules: --seconds gives more"


def test_an_undisturbed_run_without_an_end_is_refused_in_time(folder: Path) -> None:
    text = """
nodes:
  a: {run: python:acts.once, transitions: [{when: result == 'done', to: a}, {to: b}]}
  b: {run: python:acts.once}
"""
    with clocked(count()), pytest.raises(UserError, match="60 seconds"):
        verified(folder, text, seconds=1)
