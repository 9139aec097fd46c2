"""The transition table: every row can be reached, everything else is refused, and late messages are rows."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell.engine.fold import apply, signals
from stepwell.engine.records import (
    Arm,
    Called,
    CleanUp,
    Compensate,
    End,
    Failure,
    Fork,
    Goto,
    Group,
    Kind,
    Parked,
    Pause,
    Record,
    Resumption,
    RetryAt,
    Status,
)
from stepwell.engine.table import (
    ENDED,
    LEGAL,
    PARKED,
    RECEPTION,
    Message,
    Phase,
    Signal,
    Verdict,
    receive,
    walk,
)
from stepwell.engine.token import Token
from stepwell.errors import EngineFault
from tests.engine.kit import NOW_MS

RESTING = [phase for phase in Phase if not phase.startswith("evaluating")]
BROKEN = Failure("Broken", "step", "no luck")
SLEEP = Parked("sleep", (Arm("sleep"),))
APPROVAL = Parked("approval", (Arm("approval"),))
EVENT = Parked("event", (Arm("event"),))
CODE = Parked("code", (Arm("event"),))
TASKS = Parked("tasks", (Arm("tasks"),), of_function=True, of_tasks=True)
CHILDREN = Parked("children", (Arm("children"),), children=(Called("fraud", "fraud"),))
CANCELLED = Record(0, Kind.ENDED, "cancel:1", NOW_MS, next=End(Status.CANCELLED))
BROKEN_OFF = Record(0, Kind.ENDED, "deadline", NOW_MS, next=Compensate(Status.TIMED_OUT))
TIMED_OUT = Record(0, Kind.ENDED, "deadline", NOW_MS, next=End(Status.TIMED_OUT))


def step(**parts: Any) -> Record:
    return Record(0, Kind.STEP, "w", NOW_MS, "n", **parts)


def waiting(parked: Parked) -> Record:
    return Record(0, Kind.WAITING, "w", NOW_MS, "n", parked=parked)


def joined(**parts: Any) -> Record:
    return Record(0, Kind.JOINED, "w", NOW_MS, "n", **parts)


REDRIVEN = Record(0, Kind.REDRIVEN, "r", NOW_MS, "n", origin="r0")
RESUMED = Record(0, Kind.RESUMED, "t", NOW_MS, "n", resumption=Resumption("timer"))
RECEIVED = Record(0, Kind.RECEIVED, "t", NOW_MS, "n", resumption=Resumption("approved", by="ana", part="ana"))
UPDATED = Record(0, Kind.RECEIVED, "u", NOW_MS, "n", resumption=Resumption("update"))
OPERATION = Record(0, Kind.RECEIVED, "w", NOW_MS, "n", resumption=Resumption("ended", part="0.1"))
INTERRUPTED = Record(0, Kind.ENDED, "c", NOW_MS, "n", next=CleanUp(Status.CANCELLED, NOW_MS + 30_000))
TO, DONE, OVER = Goto("m"), End(Status.COMPLETED), End(Status.FAILED)
FORK = Fork((Group("n.transitions[0]", "m", 2),), "j")
# One record for each way through the table, from a phase in which a token can rest.
WAYS: list[tuple[Phase, Record]] = [
    (Phase.INITIALIZING, Record(0, Kind.STARTED, "s", NOW_MS)),
    (Phase.INITIALIZING, Record(0, Kind.GATHERED, "s", NOW_MS, rules=("batch",))),
    (Phase.INITIALIZING, REDRIVEN),
    (Phase.EXECUTING_STEP, REDRIVEN),
    (Phase.WAITING_AT_FAN_IN, REDRIVEN),
    (Phase.EXECUTING_STEP, Record(0, Kind.REOPENED, "w", NOW_MS, "n", next=FORK)),
    (Phase.INITIALIZING, CANCELLED),
    (Phase.INITIALIZING, TIMED_OUT),
    (Phase.INITIALIZING, Record(0, Kind.BEGAN, "w", NOW_MS, "n")),
    (Phase.EXECUTING_STEP, Record(0, Kind.ACTED, "w", NOW_MS, "n")),
    (Phase.EXECUTING_STEP, step(next=Pause("sleep"))),
    (Phase.EXECUTING_STEP, step(next=Pause("approval"), error=BROKEN)),
    (Phase.EXECUTING_STEP, step(next=RetryAt(1), error=BROKEN)),
    (Phase.EXECUTING_STEP, step(next=TO, rules=("n.diverge[0]",))),
    (Phase.EXECUTING_STEP, step(next=DONE, rules=("n.diverge[0]",))),
    (Phase.EXECUTING_STEP, step(next=OVER, error=BROKEN)),
    (Phase.EXECUTING_STEP, step(next=TO)),
    (Phase.EXECUTING_STEP, step(next=DONE)),
    (Phase.EXECUTING_STEP, step(next=OVER)),
    (Phase.EXECUTING_STEP, step(next=FORK)),
    (Phase.WAITING_AT_FAN_IN, joined(next=TO)),
    (Phase.WAITING_AT_FAN_IN, joined(next=DONE)),
    (Phase.WAITING_AT_FAN_IN, joined(next=OVER, error=BROKEN)),
    (Phase.WAITING_AT_FAN_IN, CANCELLED),
    (Phase.WAITING_AT_FAN_IN, TIMED_OUT),
    (Phase.EXECUTING_STEP, waiting(SLEEP)),
    (Phase.EXECUTING_STEP, waiting(APPROVAL)),
    (Phase.EXECUTING_STEP, waiting(EVENT)),
    (Phase.EXECUTING_STEP, waiting(CHILDREN)),
    (Phase.EXECUTING_STEP, waiting(CODE)),
    (Phase.EXECUTING_STEP, waiting(TASKS)),
    (Phase.EXECUTING_STEP, OPERATION),
    (Phase.WAITING_AT_FAN_IN, waiting(TASKS)),
    (Phase.WAITING_AT_FAN_IN, OPERATION),
    (Phase.WAITING_AT_FAN_IN, RESUMED),
    (Phase.COMPENSATING, waiting(CODE)),
    (Phase.WAITING_TO_COMPENSATE, RESUMED),
    (Phase.WAITING_TO_COMPENSATE, TIMED_OUT),
    (Phase.EXECUTING_STEP, step(next=Compensate(Status.FAILED), error=BROKEN)),
    (Phase.EXECUTING_STEP, step(next=Compensate(Status.FAILED))),
    (Phase.EXECUTING_STEP, BROKEN_OFF),
    (Phase.WAITING_AT_FAN_IN, joined(next=Compensate(Status.FAILED), error=BROKEN)),
    (Phase.WAITING_AT_FAN_IN, BROKEN_OFF),
    (Phase.COMPENSATING, Record(0, Kind.UNDONE, "w", NOW_MS, "n", undid="0@1")),
    (Phase.COMPENSATING, Record(0, Kind.UNDONE, "w", NOW_MS, next=End(Status.COMPENSATED))),
    (Phase.COMPENSATING, TIMED_OUT),
    (Phase.WAITING_FOR_APPROVAL, RECEIVED),
    (Phase.WAITING_FOR_EVENT, RECEIVED),
    (Phase.SLEEPING, UPDATED),
    (Phase.WAITING_FOR_CHILDREN, UPDATED),
    (Phase.EXECUTING_STEP, CANCELLED),
    (Phase.EXECUTING_STEP, TIMED_OUT),
    (Phase.EXECUTING_STEP, Record(0, Kind.RETURNED, "w", NOW_MS, "n", next=End(Status.CANCELLED))),
    (Phase.EXECUTING_STEP, INTERRUPTED),
    (Phase.WAITING_AT_FAN_IN, INTERRUPTED),
    *((phase, INTERRUPTED) for phase in sorted(PARKED)),
    *((phase, record) for phase in sorted(PARKED) for record in (RESUMED, CANCELLED, TIMED_OUT, BROKEN_OFF)),
]


def test_records_pass_every_row_and_no_row_is_there_for_nothing() -> None:
    passed = set()
    for phase, record in WAYS:
        for signal in signals(record, phase):
            passed.add((phase, signal))
            phase = LEGAL[phase, signal]  # noqa: PLW2901
    assert passed == set(LEGAL)


@pytest.mark.parametrize(("phase", "signal"), [(p, s) for p in Phase for s in Signal if (p, s) not in LEGAL])
def test_what_has_no_row_is_refused(phase: Phase, signal: Signal) -> None:
    with pytest.raises(EngineFault, match=str(phase)) as refused:
        walk(phase, (signal,))
    assert refused.value.code == "illegal_transition"


def test_an_ended_token_has_no_way_on() -> None:
    assert {phase for phase, _ in LEGAL} & ENDED == set()


@pytest.mark.parametrize("ending", [End(Status.COMPLETED), End(Status.FAILED), End(Status.CANCELLED)])
@pytest.mark.parametrize("late", [record for _, record in WAYS if record.kind is not Kind.STARTED])
def test_nothing_can_be_applied_to_an_ended_token(ending: End, late: Record) -> None:
    token = apply(Token(), step(next=ending) if ending.status is not Status.CANCELLED else CANCELLED)
    late = Record(1, late.kind, late.by, late.at_ms, late.node, next=late.next, parked=late.parked,
                  resumption=late.resumption, error=late.error)  # fmt: skip
    with pytest.raises(EngineFault):
        apply(token, late)


def test_a_refused_record_changes_nothing() -> None:
    token = apply(Token(), step(next=Goto("m")))
    with pytest.raises(EngineFault):
        apply(token, Record(1, Kind.RESUMED, "t", NOW_MS, "m", resumption=Resumption("timer")))
    assert token == apply(Token(), step(next=Goto("m")))


def test_every_phase_can_be_reached_from_the_first() -> None:
    reached: set[Phase] = {Phase.INITIALIZING}
    before: set[Phase] = set()
    while reached != before:
        before = set(reached)
        reached |= {after for (phase, _), after in LEGAL.items() if phase in before}
    assert reached == set(Phase)


def test_every_phase_that_is_not_the_end_leads_to_one() -> None:
    for start in set(Phase) - ENDED:
        reached: set[Phase] = {start}
        before: set[Phase] = set()
        while reached != before:
            before = set(reached)
            reached |= {after for (phase, _), after in LEGAL.items() if phase in before}
        assert Phase.FAILED in reached, start


def test_a_resting_phase_can_always_be_cancelled_unless_the_run_is_being_undone() -> None:
    undone = {Phase.COMPENSATING, Phase.WAITING_TO_COMPENSATE}
    assert {receive(phase, Message.CANCEL) for phase in undone} == {Verdict.REFUSE}
    for phase in set(RESTING) - ENDED - undone:
        assert LEGAL[phase, Signal.CANCELLED] is Phase.CANCELLED
        assert LEGAL[phase, Signal.FAILED] is Phase.FAILED


def test_each_resting_phase_has_a_verdict_on_each_message_and_the_passing_ones_have_none() -> None:
    assert set(RECEPTION) == {(phase, message) for phase in RESTING for message in Message}


def test_a_late_or_second_message_of_the_machine_is_dropped_and_a_call_of_a_person_is_refused() -> None:
    for phase in ENDED:
        for message in (Message.TIMER, Message.EVENT, Message.CANCEL, Message.TERMINATE, Message.DEADLINE):
            assert receive(phase, message) is Verdict.DROP
        for message in (Message.APPROVE, Message.REJECT, Message.START):
            assert receive(phase, message) is Verdict.REFUSE


def test_a_message_is_taken_only_where_the_table_of_transitions_lets_it_act() -> None:
    """The two tables agree."""
    acts = {
        Message.LOST: Signal.FAILED,
        Message.TIMER: Signal.RESUMED,
        Message.LOCKS: Signal.RESUMED,
        Message.PERMIT: Signal.RESUMED,
        Message.JOIN: Signal.JOINED,
        Message.OPERATION: Signal.RECEIVED,
        Message.UPDATE: Signal.RECEIVED,
        Message.DELEGATE: Signal.RECEIVED,
        Message.HEARTBEAT: Signal.RECEIVED,
        Message.REDRIVE: Signal.REDRIVEN,
        Message.LIMIT: Signal.CANCELLED,
        Message.CLOSE: Signal.CANCELLED,
        Message.EVENT: Signal.RESUMED,
        Message.CHILD: Signal.RESUMED,
        Message.APPROVE: Signal.RESUMED,
        Message.REJECT: Signal.RESUMED,
        Message.START: Signal.STARTED,
        Message.GATHER: Signal.GATHERED,
        Message.CANCEL: Signal.CANCELLED,
        Message.TERMINATE: Signal.FAILED,
        Message.DEADLINE: Signal.FAILED,
    }
    anywhere = {Message.WAKE, Message.STEP, Message.PAUSE, Message.UNPAUSE}  # they lead anywhere, or write nothing
    for (phase, message), verdict in RECEPTION.items():
        if verdict is Verdict.TAKE and message not in anywhere:
            assert (phase, acts[message]) in LEGAL, (phase, message)


def test_a_sleeping_token_takes_no_event_and_only_a_waiting_approval_takes_an_answer() -> None:
    assert receive(Phase.SLEEPING, Message.EVENT) is Verdict.DROP
    taking = {phase for phase in RESTING if receive(phase, Message.APPROVE) is Verdict.TAKE}
    assert taking == {Phase.WAITING_FOR_APPROVAL}
    assert {phase for phase in RESTING if receive(phase, Message.REJECT) is Verdict.TAKE} == taking


@given(st.lists(st.sampled_from(Signal), max_size=30))
def test_no_walk_comes_back_from_an_end(walked: list[Signal]) -> None:
    try:
        path = walk(Phase.INITIALIZING, tuple(walked))
    except EngineFault:
        return
    assert not ENDED & set(path[:-1])


@pytest.mark.parametrize(
    "record",
    [
        Record(0, Kind.WAITING, "w", NOW_MS, "n"),
        Record(0, Kind.ENDED, "w", NOW_MS, "n"),
        Record(0, Kind.STEP, "w", NOW_MS, "n"),
        Record(0, Kind.MOVED, "w", NOW_MS, "n"),
    ],
)
def test_a_record_without_its_parts_is_refused(record: Record) -> None:
    with pytest.raises(EngineFault) as refused:
        apply(Token(), record)
    assert refused.value.code == "broken_record"
