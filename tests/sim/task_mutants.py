"""Mutants of tasks: ends in another order, an end that is given twice, operations that nobody begins or ends."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

from stepwell.engine import effects
from stepwell.engine.actions import Action
from stepwell.engine.durable import referring, task_records
from stepwell.engine.durable.session import Session
from stepwell.engine.effect_kinds import Close, ShowStatus
from stepwell.engine.records import Kind
from stepwell.runtime.durable.sessions import Sessions
from stepwell.runtime.forks.forking import Forking
from stepwell.runtime.log import logbook

_go_on = Session.go_on
_ended = task_records.ended
_close = Forking.close
_shown = effects._shown_tasks
_ran = Sessions.ran
_source_of = referring.source_of


@contextmanager
def arrivals_reordered() -> Iterator[None]:
    """A replay gives two ends that follow each other to the function in the order in which they were begun."""

    def go_on(self: Session, records: list[Any], start: int = 0, end: int | None = None) -> None:
        slots = [record.slot for record in records]
        for at in range(len(records) - 1):
            one, other = records[at : at + 2]
            parts = [each.resumption.part for each in (one, other) if each.resumption and each.kind == "received"]
            if len(parts) == 2 and all(parts) and parts[1] < parts[0]:
                records = [*records[:at], other, one, *records[at + 2 :]]
        _go_on(self, [_in_slot(record, slot) for record, slot in zip(records, slots, strict=True)], start, end)

    with mock.patch.object(Session, "go_on", go_on):
        yield


def _in_slot(record: Any, slot: int) -> Any:
    return record if record.slot == slot else replace(record, slot=slot)


@contextmanager
def end_given_twice() -> Iterator[None]:
    """The end of an operation is recorded each time that somebody tells of it."""

    def ended(moment: Any, token: Any, slot: int, arrival: Any) -> Action:
        begun = token.tasks.get(slot)
        if begun is not None and begun.open and arrival.index not in begun.open:
            arrival = replace(arrival, index=begun.open[0])
        return _ended(moment, token, slot, arrival)

    with mock.patch.object(task_records, "ended", ended), mock.patch.object(Forking, "_is_open", return_value=True):
        yield


@contextmanager
def begun_once() -> Iterator[None]:
    """Who died before it began the operations that it wrote does not come back to them once others have written."""

    async def again(self: Forking, at: Any, by: str, writers: Collection[str], sent_for: int = -1) -> None:
        return None

    with mock.patch.object(Forking, "again", again):
        yield


@contextmanager
def cancelled_tasks_run_on() -> Iterator[None]:
    """An operation that its task has cancelled goes on for itself."""

    async def close(self: Forking, at: Any, effect: Close, by: str) -> None:
        if not effect.only:
            await _close(self, at, effect, by)

    with mock.patch.object(Forking, "close", close):
        yield


@contextmanager
def closure_of_a_stale_session() -> Iterator[None]:
    """What was given to `ctx.run` is called where the function stood when it was asked first, however far it is now."""
    first: dict[tuple[str, str, int, str], Any] = {}

    async def ran(self: Sessions, at: Any, name: str, attempted: Any) -> Any:
        async def stale(function: Any) -> Any:
            found = first.setdefault((at.run_id, at.token.id, at.token.began_slot, name), function)
            return await attempted(found)

        return await _ran(self, at, name, stale)

    with mock.patch.object(Sessions, "ran", ran):
        yield


@contextmanager
def shown_as_it_begins() -> Iterator[None]:
    """What the tasks wait for is shown as they begin it, and not when one of them goes on."""

    def shown(token: Any, record: Any) -> tuple[ShowStatus, ...]:
        return _shown(token, record) if record.kind is Kind.WAITING else ()

    with mock.patch.object(effects, "_shown_tasks", shown):
        yield


@contextmanager
def outputs_left_out() -> Iterator[None]:
    """A replay gives the function what the record says, and not the output to which it refers."""

    async def in_full(log: Any, blobs: Any, run_id: str, token: str, records: Any) -> Any:
        return records

    with mock.patch.object(logbook, "in_full", in_full):
        yield


@contextmanager
def output_of_another() -> Iterator[None]:
    """A replay reads the output of the first of the operations that began together."""

    def source_of(token: str, record: Any) -> referring.Source:
        branch, slot = _source_of(token, record)
        return f"{branch.rpartition('.')[0]}.0", slot

    with mock.patch.object(referring, "source_of", source_of):
        yield


OF_OUTPUTS = (outputs_left_out, output_of_another)
OF_TASKS = (
    closure_of_a_stale_session,
    arrivals_reordered,
    end_given_twice,
    begun_once,
    cancelled_tasks_run_on,
    shown_as_it_begins,
)
