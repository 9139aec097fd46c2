"""Overtaken: whoever died after it wrote a record of a function's tasks carries it out, though others wrote since."""

from __future__ import annotations

from dataclasses import replace

from stepwell.engine.durable.overtaken import overtaken
from stepwell.engine.effect_kinds import Close, Open, SetTimer, ShowStatus
from stepwell.engine.fold import fold
from stepwell.engine.records import TASKS, Fork, Group, Kind, Parked, Record, Resumption
from stepwell.engine.token import Token
from tests.engine.kit import NOW_MS

BY, OTHER = "wake:0:-1", "wake:0/0.2:0"
DUE_MS = NOW_MS + 60_000
LOG = [
    Record(
        0,
        Kind.WAITING,
        BY,
        NOW_MS,
        "f",
        parked=Parked(
            TASKS, (), DUE_MS, data={"begun": ["step a", "step b", "step c"]}, of_function=True, of_tasks=True
        ),
        next=Fork((Group("", "", 3, is_apart=True),), TASKS),
    ),
    Record(1, Kind.RECEIVED, OTHER, NOW_MS, "f", resumption=Resumption("ended", part="0.2")),
]


def found(by: str, sent_for: int = -1) -> list[object]:
    return [*overtaken(fold(LOG, Token()), {by}, sent_for)]


def test_who_comes_again_begins_what_it_wrote_sets_the_timer_and_shows_the_run() -> None:
    begun, timer, shown = found(BY)
    assert isinstance(begun, Open)
    assert (begun.slot, begun.only) == (0, (0, 1))
    assert timer == SetTimer(1, DUE_MS)
    assert isinstance(shown, ShowStatus)


def test_so_does_who_was_sent_for_the_record() -> None:
    assert found("another", sent_for=0) == found(BY)


def test_what_others_wrote_is_theirs_to_carry_out() -> None:
    assert found("another") == []


def test_what_it_cancelled_is_ended_though_nothing_of_it_is_open() -> None:
    parked = Parked(TASKS, (), None, data={"begun": []}, of_function=True, of_tasks=True, cancelled=("0.0", "0.1"))
    cancel = Record(2, Kind.WAITING, "cancels", NOW_MS, "f", parked=parked)
    later = Record(3, Kind.WAITING, OTHER, NOW_MS, "f", parked=Parked(TASKS, (), DUE_MS, data={"begun": []},
                   of_function=True, of_tasks=True))  # fmt: skip
    token = fold([*LOG, cancel, later], Token())
    closed, timer, _ = overtaken(token, {"cancels"})
    assert closed == Close(0, (0, 1))
    assert timer == SetTimer(3, DUE_MS)


def test_who_began_what_others_cancelled_shows_the_run_all_the_same() -> None:
    parked = Parked(TASKS, (), None, data={"begun": []}, of_function=True, of_tasks=True, cancelled=("0.0", "0.1"))
    cancel = Record(2, Kind.WAITING, OTHER, NOW_MS, "f", parked=parked)
    later = Record(3, Kind.WAITING, "another", NOW_MS, "f", parked=replace(parked, cancelled=()))
    for log in ([*LOG, cancel], [*LOG, cancel, later]):
        closed, shown = overtaken(fold(log, Token()), {BY})
        assert closed == Close(0, (0, 1))
        assert isinstance(shown, ShowStatus)
