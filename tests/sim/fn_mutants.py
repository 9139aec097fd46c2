"""Mutants of durable functions: each takes one law of their sessions away, and the simulator must notice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

from stepwell.engine import effects as engine_effects
from stepwell.engine import fold as engine_fold
from stepwell.engine import writing
from stepwell.engine.actions import Write
from stepwell.engine.durable.journal import Entry
from stepwell.engine.durable.session import Session
from stepwell.engine.inputs import StepEnded
from stepwell.engine.records import CleanUp, Kind, Record
from stepwell.engine.token import Token
from stepwell.engine.waits import code
from stepwell.runtime.durable import sessions
from stepwell.runtime.durable.sessions import Sessions
from stepwell.runtime.durable.turning import can_go_on
from stepwell.runtime.log.door import Answer, Door

_of_join = engine_effects._of_join
_record = writing.record
_returned = engine_fold._returned
_deliver = Session._deliver
_take = Session._take
_put = Door.put
_can_go_on = can_go_on
_journal = Sessions._journal
_new_records = Sessions._new_records


@contextmanager
def cached_by_name() -> Iterator[None]:
    """What an operation brought is found by its name alone: the first of that name stands for all."""

    def deliver(self: Session, entry: Entry) -> None:
        known: dict[str, Entry] = self.__dict__.setdefault("known", {})
        _deliver(self, known.setdefault(str(entry), entry))

    with mock.patch.object(Session, "_deliver", deliver):
        yield


@contextmanager
def losers_run_on() -> Iterator[None]:
    """A `first` that has its winner leaves the others to themselves."""

    def of_join(graph: Any, token: Token, record: Record) -> tuple[Any, ...]:
        return () if record.node == "first" else _of_join(graph, token, record)

    with mock.patch.object(engine_effects, "_of_join", of_join):
        yield


@contextmanager
def events_forgotten_by_continue_as() -> Iterator[None]:
    """A function that begins anew does not know any more which events it has had."""

    def returned(token: Token, record: Record) -> Mapping[str, Any]:
        return {**_returned(token, record), "seen": {}}

    with mock.patch.dict(engine_fold._CHANGES, {Kind.RETURNED: returned}):
        yield


@contextmanager
def lives_share_slots() -> Iterator[None]:
    """A new life of a function is replayed with what the one before it awaited."""

    async def journal(self: Sessions, at: Any) -> Any:
        began = at.token.began_slot
        records = await self._new_records(at, -1)
        mine = await _journal(self, at)
        rest = [record for record in records if record.kind is not Kind.RETURNED]
        moved = [replace(record, slot=began + 1 + number) for number, record in enumerate(rest)]
        return replace(mine, records=moved[: at.token.slot - began])

    with mock.patch.object(Sessions, "_journal", journal):
        yield


@contextmanager
def never_caught_up() -> Iterator[None]:
    """A session that is kept takes its log's last record alone, whatever others wrote in between."""

    async def go_on(self: Sessions, at: Any, after: int) -> list[Record]:
        last = at.token.last
        is_kept = after > max(at.token.began_slot - 1, -1)
        if is_kept and last is not None and at.token.slot > after:
            return [replace(last, slot=after + 1)]
        return await _new_records(self, at, after)

    with mock.patch.object(Sessions, "_new_records", go_on):
        yield


@contextmanager
def steps_without_writes() -> Iterator[None]:
    """The record of a step does not tell what the function wrote into its state before."""

    def record(moment: Any, token: Token, kind: Kind, node: str, **parts: Any) -> Record:
        if kind is Kind.STEP and moment.turn is not None:
            parts["writes"] = {}
        return _record(moment, token, kind, node, **parts)

    with mock.patch.object(writing, "record", record):
        yield


@contextmanager
def session_of_another_life() -> Iterator[None]:
    """A session that is kept goes on, although its function has begun anew since."""

    def can_go_on(session: Any, at: Any) -> bool:
        return session.slot <= at.token.slot and session.asked is not None

    with mock.patch.object(sessions, "can_go_on", can_go_on):
        yield


@contextmanager
def cancel_untold() -> Iterator[None]:
    """A session that is kept goes on awaiting what it awaited when its run was cancelled."""

    def take(self: Session, record: Record, *rest: Any) -> None:
        if isinstance(record.next, CleanUp):
            self._journal.take(record)
        else:
            _take(self, record, *rest)

    with mock.patch.object(Session, "_take", take):
        yield


@contextmanager
def committed_after_cancel() -> Iterator[None]:
    """A worker whose slot was taken by the cancel writes its step's result behind it."""

    async def put(self: Door, at: Any, given: Any, by: str, *rest: Any, **options: Any) -> Answer:
        action = self.decide(at, given, by)
        answer = await _put(self, at, given, by, *rest, **options)
        is_step = isinstance(given, StepEnded) and isinstance(action, Write) and action.record.kind is Kind.STEP
        if is_step and isinstance(action, Write) and not answer.is_mine and at.graph.replays:
            now = await self._logbook.load(at.run_id, at.token.id)
            if now is not None and now.token.last is not None and isinstance(now.token.last.next, CleanUp):
                late = replace(action.record, slot=now.token.next_slot)
                await self._logbook.append(now, Write(late), (late,))
        return answer

    with mock.patch.object(Door, "put", put):
        yield


@contextmanager
def keyed_anew_after_code() -> Iterator[None]:
    """A step that a worker died in gets the key of the slot after its wait for code."""
    with mock.patch.object(code, "_rules_of_keys", return_value=()):
        yield


OF_FUNCTIONS = (
    cancel_untold,
    committed_after_cancel,
    cached_by_name,
    losers_run_on,
    events_forgotten_by_continue_as,
    lives_share_slots,
    never_caught_up,
    steps_without_writes,
    session_of_another_life,
)
