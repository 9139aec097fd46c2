"""History: records told to people. Each record's entries, their order, their ids, and every change of phase."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell.engine.entries import ENTRY_TYPES, Entry, entry_json, place_of
from stepwell.engine.fold import apply
from stepwell.engine.history import narrate, opening, under_way
from stepwell.engine.records import (
    Arm,
    End,
    Failure,
    Goto,
    Kind,
    Next,
    Parked,
    Pause,
    Record,
    Resumption,
    RetryAt,
    RunInfo,
    Status,
    Topic,
)
from stepwell.engine.table import Phase
from stepwell.engine.token import Token

RUN = RunInfo("r1", "order", "sha256:0", {"a": 1}, created_ms=1_000, started_ms=1_500)
BROKEN = Failure("Broken", "step", "no luck", "pay")
APPROVAL = Parked("approval", (Arm("approval"),), until_ms=90_000, data={"x": 1}, since_ms=3_000)
EVENT = Parked("event", (Arm("event", (Topic("paid", "=7"), Topic("paid", "@r1"))),), until_ms=9_000)
SLEEP = Parked("sleep", (Arm("sleep"),), until_ms=9_000, timer_arm=0)


def tell(*records: Record, run: RunInfo = RUN) -> list[Entry]:
    """All entries of a log."""
    token = Token()
    entries: list[Entry] = []
    for record in records:
        before, token = token, apply(token, record)
        entries += narrate(record, before, token, run)
    return entries


def types(entries: list[Entry]) -> list[str]:
    return [entry.type for entry in entries if entry.type != "phase.changed"]


def phases(entries: list[Entry]) -> list[tuple[str, str, str]]:
    return [(entry.from_phase, entry.to_phase, entry.trigger) for entry in entries if entry.type == "phase.changed"]


def step(slot: int, following: Next, **parts: Any) -> Record:
    """The record of one attempt."""
    return Record(
        slot, Kind.STEP, "wake:0:-1", 2_000 + slot, "pay", attempt=1, started_ms=1_800, next=following, **parts
    )


def waiting(slot: int, parked: Parked) -> Record:
    return Record(slot, Kind.WAITING, "wake:0:-1", 2_000 + slot, "pay", parked=parked)


def resumed(slot: int, came: Resumption) -> Record:
    return Record(slot, Kind.RESUMED, "timer:0:0", 2_000 + slot, "pay", resumption=came)


def test_the_opening_is_read_off_the_header() -> None:
    entries = opening(Token(), RUN)
    assert [(entry.id, entry.type, entry.at_ms) for entry in entries] == [
        ("0@-1.0", "run.created", 1_000),
        ("0@-1.1", "run.pending", 1_000),
    ]
    assert entries[0].data["input"] == {"a": 1}


def test_a_run_that_was_only_created_is_not_pending_until_it_is_started() -> None:
    idle = RunInfo("r1", "order", "v", None, 1_000, idle=True)
    assert [entry.type for entry in opening(Token(), idle)] == ["run.created"]
    entries = tell(Record(0, Kind.STARTED, "start:r1", 2_000, who="ana"), run=idle)
    assert [(entry.type, entry.trigger, entry.by) for entry in entries] == [("run.pending", "call", "ana")]


def test_the_first_record_tells_that_the_run_was_picked_up_before_it() -> None:
    entries = tell(step(0, Goto("ship"), output=5, rules=("pay.next",)))
    assert types(entries) == ["run.started", "step.started", "step.completed"]
    assert [entry.at_ms for entry in entries[:4]] == [1_500, 1_500, 1_800, 2_000]
    assert phases(entries) == [
        ("initializing", "executing_step", "internal"),
        ("executing_step", "evaluating_diverge", "internal"),
        ("evaluating_diverge", "evaluating_branch", "internal"),
        ("evaluating_branch", "executing_step", "internal"),
    ]
    assert entries[3].data == {"output": 5, "next": "ship", "rules": ["pay.next"]}


def test_what_is_told_while_the_first_step_runs_is_told_the_same_after_it() -> None:
    early = list(under_way(Token(), RUN))
    assert [(entry.id, entry.type) for entry in early] == [("0@0.0", "run.started"), ("0@0.1", "phase.changed")]
    for later in (step(0, Goto("ship")), Record(0, Kind.ENDED, "cancel:1", 2_000, next=End(Status.CANCELLED))):
        assert [(e.id, e.type, e.at_ms, e.to_phase) for e in tell(later)[:2]] == [
            (e.id, e.type, e.at_ms, e.to_phase) for e in early
        ]


def test_nothing_is_told_in_advance_of_a_run_that_nobody_has_picked_up() -> None:
    assert under_way(Token(), RunInfo("r1", "order", "v", None, 1_000)) == ()


def test_a_rule_of_diverge_skips_the_branch_phase() -> None:
    entries = tell(step(0, Goto("pay"), rules=("pay.diverge[0]",)))
    assert ("evaluating_diverge", "executing_step", "internal") in phases(entries)
    assert not any(to == "evaluating_branch" for _, to, _ in phases(entries))


def test_a_failed_attempt_says_when_the_next_is_due() -> None:
    entries = tell(step(0, RetryAt(61_000), error=BROKEN))
    assert types(entries)[-2:] == ["step.failed", "step.retry_scheduled"]
    again = next(entry for entry in entries if entry.type == "step.retry_scheduled")
    assert (again.attempt, again.data) == (2, {"at": "1970-01-01T00:01:01.000Z"})


def test_a_failure_that_is_passed_over_is_a_skipped_step() -> None:
    assert types(tell(step(0, Goto("ship"), error=BROKEN, skipped=True)))[-2:] == ["step.failed", "step.skipped"]


def test_a_failure_that_nobody_takes_ends_the_run_last_of_all() -> None:
    entries = tell(step(0, End(Status.FAILED), error=BROKEN))
    assert (entries[-2].to_phase, entries[-1].type) == ("failed", "run.failed")
    assert entries[-1].data["error"]["type"] == "Broken"


def test_the_last_step_tells_the_result_of_the_run() -> None:
    entries = tell(step(0, End(Status.COMPLETED), output=7))
    assert (entries[-1].type, entries[-1].data) == ("run.completed", {"result": 7})


def test_a_step_that_may_run_once_began_once() -> None:
    began = Record(0, Kind.BEGAN, "wake:0:-1", 2_000, "pay", attempt=1)
    assert types(tell(began, step(1, Goto("ship")))) == ["run.started", "step.started", "step.completed"]


def test_a_directive_of_a_step_is_a_pause_and_then_its_wait() -> None:
    entries = tell(step(0, Pause("approval")), waiting(1, APPROVAL))
    assert types(entries)[-2:] == ["step.paused", "approval.requested"]


def test_a_blocked_step_asks_for_an_approval() -> None:
    blocked = Failure("Blocked", "governance", "not without ana", "pay")
    entries = tell(step(0, Pause("approval", then="again"), error=blocked), waiting(1, APPROVAL))
    assert types(entries)[-3:] == ["step.failed", "step.blocked", "approval.requested"]


@pytest.mark.parametrize(
    ("parked", "came", "told", "change"),
    [
        (SLEEP, Resumption("timer"), ["sleep.started", "timer.fired", "sleep.completed"], ("sleeping", "timeout")),
        (APPROVAL, Resumption("approved", by="ana"), ["approval.requested", "approval.received"],
         ("waiting_for_approval", "call")),
        (APPROVAL, Resumption("rejected", by="ana"), ["approval.requested", "approval.rejected"],
         ("waiting_for_approval", "call")),
        (APPROVAL, Resumption("timeout"), ["approval.requested", "timer.fired"], ("waiting_for_approval", "timeout")),
        (EVENT, Resumption("event", name="paid"), ["event.awaited", "event.received"], ("waiting_for_event", "event")),
        (EVENT, Resumption("timeout"), ["event.awaited", "timer.fired"], ("waiting_for_event", "timeout")),
    ],
)  # fmt: skip
def test_a_wait_tells_what_began_it_and_what_ended_it(
    parked: Parked, came: Resumption, told: list[str], change: tuple[str, str]
) -> None:
    entries = tell(waiting(0, parked), resumed(1, came))
    assert types(entries) == ["run.started", *told]
    phase, trigger = change
    assert phases(entries)[-2:] == [("executing_step", phase, "internal"), (phase, "executing_step", trigger)]
    assert {entry.by for entry in entries if entry.id.startswith("0@1.")} == {came.by or "timer:0:0"}


def test_an_awaited_event_is_named_without_the_runs_own_topic() -> None:
    awaited = next(entry for entry in tell(waiting(0, EVENT)) if entry.type == "event.awaited")
    assert awaited.data["topics"] == [{"name": "paid", "key": "7"}]


def test_the_actions_of_a_timeout_are_told_one_by_one() -> None:
    acted = [
        Record(2, Kind.ACTED, "timer:0:0", 2_002, "pay", attempt=1, error=BROKEN, next=RetryAt(9_000)),
        Record(3, Kind.ACTED, "timer:0:0", 2_003, "pay", attempt=2, output="sent"),
    ]
    entries = tell(waiting(0, EVENT), resumed(1, Resumption("timeout")), *acted)
    assert types(entries)[-2:] == ["action.failed", "action.completed"]
    assert entries[-1].data == {"action": 0, "output": "sent"}


def test_a_cancel_is_told_with_who_and_why_and_a_deadline_as_a_timeout() -> None:
    cancelled = Record(0, Kind.ENDED, "cancel:1", 2_000, next=End(Status.CANCELLED), who="ana", reason="enough")
    last = tell(cancelled)[-1]
    assert (last.type, last.by, last.trigger, last.data) == ("run.cancelled", "ana", "call", {"reason": "enough"})
    timed_out = End(Status.TIMED_OUT, Failure("workflow_timeout", "timeout", "late"))
    last = tell(Record(0, Kind.ENDED, "deadline", 2_000, next=timed_out))[-1]
    assert (last.type, last.trigger, last.data["error"]["type"]) == ("run.timed_out", "timeout", "workflow_timeout")


def test_a_node_without_code_is_passed() -> None:
    entries = tell(Record(0, Kind.MOVED, "wake:0:-1", 2_000, "fork", next=Goto("pay")))
    assert types(entries) == ["run.started", "node.passed"]


def test_ids_are_the_slot_and_a_number_and_time_never_runs_back() -> None:
    entries = tell(step(0, Goto("pay")), waiting(1, SLEEP), resumed(2, Resumption("timer")))
    places = [place_of(entry.id) for entry in entries]
    assert places == sorted(places, key=lambda place: place or (0, 0))
    assert None not in places
    assert [entry.at_ms for entry in entries] == sorted(entry.at_ms for entry in entries)


@pytest.mark.parametrize("text", ["", "0@", "0@1", "0@a.b", "0@1.²", "1.1.1", "0@" + "9" * 50 + ".1"])
def test_what_is_no_entry_id_has_no_place(text: str) -> None:
    assert place_of(text) is None


def test_every_entry_type_has_a_line_of_meaning() -> None:
    ends = {f"run.{status.value}" for status in Status if status.terminal}
    assert ends <= ENTRY_TYPES.keys()
    assert all(ENTRY_TYPES.values())


def test_json_shows_absent_fields_as_null() -> None:
    shown = entry_json(opening(Token(), RUN)[1])
    assert (shown["step"], shown["attempt"], shown["from"], shown["to"], shown["data"]) == (None,) * 5
    assert Phase.INITIALIZING not in shown.values()
