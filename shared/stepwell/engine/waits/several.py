"""Waits for several things: the first of them (`any`), or each of them (`all`).

A record holds the arms, and as the kind of the whole the one that decides the phase.
"""

from __future__ import annotations

from collections.abc import Iterable

from stepwell.definition.graph import Wait
from stepwell.engine.records import Parked
from stepwell.engine.table import Signal
from stepwell.engine.waits.approval import APPROVAL
from stepwell.engine.waits.delay import DELAY
from stepwell.engine.waits.event import EVENT
from stepwell.engine.waits.kind import WaitKind, kind_named


class FirstOfSeveral(WaitKind):
    """Any one of its arms ends it."""

    def words(self, wait: Wait) -> str:
        return "first of " + ", ".join(kind_named(arm.kind).words(arm) for arm in wait.arms)


ANY = FirstOfSeveral("any")
ALL = WaitKind("all", is_all=True)


def parked_as(arms: Iterable[Wait]) -> str:
    """Returns the kind stored for the whole: people come before events, and timers last."""
    signals = {kind_named(arm.kind).signal for arm in arms}
    if Signal.AWAITED_APPROVAL in signals:
        return APPROVAL.name
    return DELAY.name if signals == {Signal.SLEPT} else EVENT.name


def shown_as(parked: Parked) -> str:
    """Returns the kind that a reader sees: of several waits, the first that people end."""
    kind = kind_named(parked.kind)
    if len(parked.arms) < 2 or kind.asks_people:
        return parked.kind
    return next((arm.kind for arm in parked.arms if kind_named(arm.kind).of_people), parked.kind)


def operation_of(parked: Parked) -> str:
    """The operation of a durable function that parked it so."""
    if len(parked.arms) == 1 or parked.children:
        return parked.kind
    return ALL.name if parked.is_all else ANY.name
