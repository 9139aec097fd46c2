"""The slot that keys a visit: a log keeps the keys of the code that wrote it, and a wait for code changes none."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from stepwell.engine.entering import key_slot
from stepwell.engine.fold import fold
from stepwell.engine.records import Arm, Goto, Kind, Parked, Record, Resumption
from stepwell.engine.stored.snapshots import decode_token, encode_token
from stepwell.engine.token import Token
from stepwell.engine.waits.aside import CODE, KEYED, SHIFTS
from tests.engine.kit import NOW_MS

CHARGED = Record(0, Kind.STEP, "wake:0:-1", NOW_MS, "charge", attempt=1, next=Goto("flow"))


def waited(*rules: tuple[str, ...]) -> Sequence[Record]:
    """A step, and a wait for code with each of these rules."""
    records = [CHARGED]
    for one in rules:
        slot, parked = len(records), Parked(CODE, (Arm("event"),), since_ms=NOW_MS)
        records.append(Record(slot, Kind.WAITING, "wake:0:-1", NOW_MS, "flow", parked=parked, rules=one))
        records.append(Record(slot + 1, Kind.RESUMED, "event", NOW_MS, "flow", resumption=Resumption("event")))
    return records


@pytest.mark.parametrize(
    ("rules", "slot"),
    [
        ((), 1),
        (((KEYED,),), 1),
        (((KEYED,), (KEYED,)), 1),
        (((),), 3),
        (((), (KEYED,)), 3),
    ],
    ids=["no wait", "a wait", "two waits", "a wait of an earlier release", "one of each"],
)
def test_an_operation_is_keyed_by_its_first_slot_since_the_code_that_keeps_it(
    rules: Sequence[tuple[str, ...]], slot: int
) -> None:
    """A worker of an earlier release may be in the step that follows a wait which that release recorded."""
    token = decode_token(encode_token(fold(waited(*rules), Token())))
    assert token is not None
    assert key_slot(token, -1) == slot
    begun = fold([Record(token.next_slot, Kind.BEGAN, "wake:0:-1", NOW_MS, "ship", attempt=1)], token)
    assert (key_slot(begun, begun.slot), begun.entered_slot) == (slot, slot)


@pytest.mark.parametrize(("rules", "entered"), [((), 3), ((SHIFTS,), 1)])
def test_the_visits_of_a_batch_are_keyed_as_if_waits_for_code_took_no_slots(
    rules: tuple[str, ...], entered: int
) -> None:
    records = [*waited(rules)[1:]]
    moved = [Record(one.slot - 1, one.kind, one.by, one.at_ms, "a", parked=one.parked, rules=one.rules,
                    resumption=one.resumption) for one in records]  # fmt: skip
    end = Record(2, Kind.STEP, "wake:0:-1", NOW_MS, "a", attempt=1, next=Goto("b"))
    assert fold([*moved, end], Token()).entered_slot == entered
