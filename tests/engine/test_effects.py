"""Effects: a function of the last record, in an order that loses nothing, and the same however often it is asked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from stepwell.engine.effect_kinds import (
    Announce,
    Close,
    Effect,
    Forget,
    Open,
    Register,
    SetTimer,
    ShowStatus,
    TakePending,
)
from stepwell.engine.effects import effects, picked_up
from stepwell.engine.fold import fold
from stepwell.engine.records import (
    ENDED,
    TASKS,
    UPDATE,
    Arm,
    End,
    Fork,
    Goto,
    Group,
    Kind,
    Parked,
    Record,
    Resumption,
    Status,
    Tally,
)
from stepwell.engine.token import Token
from stepwell.engine.waits.aside import CODE
from stepwell.engine.waits.code import DEPLOYED_TOPIC
from tests.engine.kit import NOW_MS, Play, failure, play

HOLD = (
    "workflow: w\nretention: 1d\ntimeline: [{name: a, run: python:m.a}, {name: hold, wait: {for: event, name: paid}}]"
)


def of(run: Play) -> list[str]:
    """The names of the last record's effects, asked twice."""
    asked = effects(run.graph, run.token)
    assert asked == effects(run.graph, run.token)
    return [type(effect).__name__ for effect in asked]


def held() -> Play:
    run = play(HOLD)
    run.ends(1)
    return run.settle()


def test_nothing_is_demanded_before_the_first_record_or_by_a_step_that_goes_on() -> None:
    run = play(HOLD)
    assert of(run) == []
    run.ends(1)
    assert of(run) == []


def test_a_wait_is_registered_before_the_mailbox_is_read() -> None:
    """Else an event that comes in between is seen by neither."""
    assert of(held()) == ["Register", "SetTimer", "ShowStatus", "TakePending"]


def test_a_wait_without_a_limit_sets_no_timer() -> None:
    run = play("workflow: w\ntimeline: [{name: hold, wait: {any: [{for: event, name: a}], timeout: 1h}}]").settle()
    assert of(run) == ["Register", "SetTimer", "ShowStatus", "TakePending"]
    assert run.token.parked is not None
    unlimited = Record(0, Kind.WAITING, "w", NOW_MS, "hold", parked=type(run.token.parked)("event", ()))
    token = Token(slot=0, last=unlimited, parked=unlimited.parked)
    assert of(Play(run.graph, token=token)) == ["Register", "ShowStatus", "TakePending"]


def test_the_timer_and_the_registration_name_the_slot_of_the_wait() -> None:
    run = held()
    made = effects(run.graph, run.token)
    slots = {effect.slot for effect in made if isinstance(effect, Register | SetTimer | TakePending)}
    assert slots == {run.token.slot}


def test_what_ended_the_wait_takes_its_registration_away_and_shows_running() -> None:
    run = held()
    slot = run.token.slot
    run.came("event", {})
    shown, forgotten = effects(run.graph, run.token)
    assert isinstance(shown, ShowStatus)
    assert shown.status is Status.RUNNING
    assert isinstance(forgotten, Forget)
    assert forgotten.slot == slot


CAME = Resumption("event", name="stepwell.deployed")
ONE_TASK = Fork((Group("", "f", 1, is_apart=True),), TASKS)
TASKS_WAIT = Parked(
    TASKS, (), data={"begun": ["event paid"], "waits": [[0, "event", None]]}, of_function=True, of_tasks=True
)


def of_function(*records: Record) -> list[Effect]:
    """What follows the last of the records, of a durable function."""
    return list(effects(play(HOLD).graph, fold(records, Token())))


def written(slot: int, kind: Kind, **parts: Any) -> Record:
    return Record(slot, kind, f"actor {slot}", NOW_MS, **{"node": TASKS, **parts})


def test_an_operation_that_ends_after_a_wait_for_code_has_the_run_shown_as_running() -> None:
    """Who ended the wait may have died before it showed that, and took the registration away."""
    shown, forgotten = of_function(
        written(0, Kind.WAITING, parked=replace(TASKS_WAIT, data={"begun": ["step a"]}), next=ONE_TASK),
        written(1, Kind.WAITING, node="f", parked=Parked(CODE, (Arm("event", (DEPLOYED_TOPIC,)),))),
        written(2, Kind.RESUMED, resumption=CAME),
        written(3, Kind.RECEIVED, resumption=Resumption(ENDED, part="0.0")),
    )
    assert isinstance(shown, ShowStatus)
    assert (shown.status, shown.rev) == (Status.RUNNING, 6)
    assert isinstance(forgotten, Forget)
    assert (forgotten.parked.kind, forgotten.slot) == (CODE, 1)


@pytest.mark.parametrize(("by", "ended"), [("another", [Close(0, (0,))]), ("actor 1", [])])
def test_a_cancel_ends_what_a_new_life_left_behind_if_who_began_that_may_have_died(by: str, ended: list[Close]) -> None:
    made = of_function(
        written(0, Kind.WAITING, parked=TASKS_WAIT, next=ONE_TASK),
        written(1, Kind.RETURNED, node="f", writes={}, next=Goto("f")),
        replace(written(2, Kind.ENDED, next=End(Status.CANCELLED)), by=by),
    )
    assert [one for one in made if isinstance(one, Close)] == ended


@pytest.mark.parametrize(("by", "rev"), [("another", [6]), ("actor 1", [])])
def test_a_new_life_is_shown_as_running_if_who_began_what_it_leaves_may_have_died(by: str, rev: list[int]) -> None:
    """The header says that all tasks wait, until their worker shows that one of them works."""
    waits = replace(TASKS_WAIT, data={"begun": ["step a"]})
    made = of_function(
        written(0, Kind.WAITING, parked=TASKS_WAIT, next=ONE_TASK),
        written(1, Kind.WAITING, parked=waits, next=ONE_TASK),
        *(replace(one, by=by) for one in (
            written(2, Kind.RECEIVED, resumption=Resumption(ENDED, part="0.0")),
            written(3, Kind.RETURNED, node="f", writes={}, next=Goto("f")),
        )),
    )  # fmt: skip
    assert [one.rev for one in made if isinstance(one, ShowStatus)] == rev


def test_an_update_after_the_end_of_the_last_operation_has_the_run_shown_as_running() -> None:
    (shown,) = of_function(
        written(0, Kind.WAITING, parked=TASKS_WAIT, next=ONE_TASK),
        written(1, Kind.RESUMED, resumption=Resumption(ENDED, part="0.0")),
        written(2, Kind.RECEIVED, resumption=Resumption(UPDATE, name="greet")),
    )
    assert isinstance(shown, ShowStatus)
    assert (shown.status, shown.rev) == (Status.RUNNING, 4)


@pytest.mark.parametrize(("arrived", "closed"), [(1, [0]), (3, [])])
def test_a_fork_right_after_a_join_closes_what_that_join_did_not_wait_for(arrived: int, closed: list[int]) -> None:
    """Its failure may fork in its turn: branches of the fork before may still run then."""
    three = Fork((Group("rule", "work", 3),), "meet")
    joined = Record(1, Kind.JOINED, "w", NOW_MS, "meet", error=failure("E"), tally=Tally(arrived, 1), next=three)
    token = fold([Record(0, Kind.MOVED, "w", NOW_MS, "begin", next=three), joined], Token())
    made = effects(held().graph, token)
    assert [one.slot for one in made if isinstance(one, Close)] == closed
    assert [one.slot for one in made if isinstance(one, Open)] == [1]


def test_an_end_shows_its_status_and_when_the_run_s_data_may_be_dropped() -> None:
    run = held()
    run.came("event", {}).settle()
    (shown,) = effects(run.graph, run.token)
    assert isinstance(shown, ShowStatus)
    assert (shown.status, shown.expires_ms) == (Status.COMPLETED, run.last.at_ms + 86_400_000)


def test_a_cancelled_wait_takes_its_registration_away() -> None:
    run = held()
    slot = run.token.slot
    run.ended_by(Status.CANCELLED)
    forgotten, shown = effects(run.graph, run.token)  # the end is shown once the rest is done
    assert isinstance(forgotten, Forget)
    assert isinstance(shown, ShowStatus)
    assert (forgotten.slot, shown.status) == (slot, Status.CANCELLED)


def test_a_started_run_is_pending_until_it_is_picked_up() -> None:
    run = play(HOLD, idle=True)
    run.append(Record(0, Kind.STARTED, "start:r1", NOW_MS))
    (shown,) = effects(run.graph, run.token)
    assert isinstance(shown, ShowStatus)
    assert shown.status is Status.PENDING
    assert shown.rev < picked_up(run.token, NOW_MS).rev


def test_a_blocked_step_escalates_once_under_an_id_of_its_own() -> None:
    run = play(HOLD)
    run.ends(failure=failure("Blocked", "governance", message="ask", data={"n": 1}))
    (told,) = effects(run.graph, run.token)
    assert told == Announce("governance.blocked", {"node": "a", "reason": "ask", "data": {"n": 1}}, "0@0")


def test_later_records_show_later_revisions() -> None:
    """An older change must never undo a newer one: their revisions grow with the log."""
    run = play("workflow: w\ntimeline: [{name: h1, wait: {for: approval}}, {name: h2, wait: {for: approval}}]")
    revisions = [-2, picked_up(run.token, NOW_MS).rev]
    for _ in range(2):
        run.settle()
        revisions += [effect.rev for effect in effects(run.graph, run.token) if isinstance(effect, ShowStatus)]
        run.came("approved", {"data": 1})
        revisions += [effect.rev for effect in effects(run.graph, run.token) if isinstance(effect, ShowStatus)]
    run.settle()
    revisions += [effect.rev for effect in effects(run.graph, run.token) if isinstance(effect, ShowStatus)]
    assert revisions == sorted(set(revisions))
