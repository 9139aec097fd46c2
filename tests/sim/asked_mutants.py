"""Mutants of updates, queries and conditions: made twice, told otherwise, refused by nobody, seen too late."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

from stepwell.engine.durable import tasks
from stepwell.engine.durable.session import Session
from stepwell.engine.records import UPDATE
from stepwell.runtime.calls.updates import Updates
from stepwell.runtime.durable.running import FunctionSession
from stepwell.runtime.durable.sessions import Sessions
from stepwell.runtime.durable.warm import Warm, _life
from stepwell.runtime.log.door import Door
from stepwell.runtime.log.standing import Standing
from stepwell.runtime.waits.sending import Sending

_go_on, _put = Session.go_on, Door.put
_update_again, _awaited = Session._update_again, FunctionSession._awaited
_is_handled = Updates._is_handled
_after = tasks.after
_new_records = Sessions._new_records


@contextmanager
def update_not_marked() -> Iterator[None]:
    """The record of an update leaves its event as it is: who comes later makes it once more."""

    async def put(self: Door, at: Any, given: Any, by: str, *rest: Any, **options: Any) -> Any:
        decided = self.decide

        def unmarked(*given: Any, **named: Any) -> Any:
            action: Any = decided(*given, **named)
            record = getattr(action, "record", None)
            is_update = record is not None and record.resumption is not None and record.resumption.kind == UPDATE
            return replace(action, consumes=None) if is_update else action

        with mock.patch.object(self, "decide", unmarked):
            return await _put(self, at, given, by, *rest, **options)

    with mock.patch.object(Door, "put", put):
        yield


@contextmanager
def updates_reordered() -> Iterator[None]:
    """A replay makes two updates that follow each other in the order of their ids."""

    def go_on(self: Session, records: list[Any], start: int = 0, end: int | None = None) -> None:
        for at in range(len(records) - 1):
            one, other = records[at : at + 2]
            ids = [each.resumption.event_id for each in (one, other)
                   if each.resumption is not None and each.resumption.kind == UPDATE]  # fmt: skip
            if len(ids) == 2 and ids[1] < ids[0]:
                swapped = replace(other, slot=one.slot), replace(one, slot=other.slot)
                records = [*records[:at], *swapped, *records[at + 2 :]]
        _go_on(self, records, start, end)

    with mock.patch.object(Session, "go_on", go_on):
        yield


@contextmanager
def validator_not_asked() -> Iterator[None]:
    """What a validator would refuse is made."""
    with mock.patch.object(FunctionSession, "check", return_value=None):
        yield


@contextmanager
def refusal_forgotten() -> Iterator[None]:
    """Who finds an update refused tells nobody."""

    async def refused(self: Updates, at: Standing, update: Any, budget: Any) -> bool:
        self_ = _Parted(self, replace(self._ports, mailbox=_With(self._ports.mailbox, put_event=_dropped)))
        return await _is_handled(self_, at, update, budget)  # type: ignore[arg-type]  # as far as it is asked

    with mock.patch.object(Updates, "_is_handled", refused):
        yield


async def _dropped(event: Any, *given: Any) -> bool:
    return True


class _With:
    """A port, of which one call does something else."""

    def __init__(self, inner: Any, **calls: Any) -> None:
        self.__dict__.update(calls)
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class _Parted(_With):
    """The updates of a worker with other ports."""

    def __init__(self, inner: Any, ports: Any) -> None:
        super().__init__(inner, _ports=ports)
        self._inner = inner


@contextmanager
def update_put_off_by_nobody() -> Iterator[None]:
    """Where the function cannot take an update now, its message is gone."""
    with mock.patch.object(Updates, "_put_off", mock.AsyncMock()):
        yield


@contextmanager
def session_of_an_update_kept() -> Iterator[None]:
    """A session that made an update stays, although another record took the slot."""
    real = Sessions.updated

    async def updated(self: Sessions, at: Any, asked: Any, write: Any) -> Any:
        with mock.patch.object(self._warm, "let_go", _kept(self._warm, at)):
            return await real(self, at, asked, write)

    with mock.patch.object(Sessions, "updated", updated):
        yield


def _kept(sessions: Warm, at: Any) -> Any:
    def let_go(session: Any) -> None:
        sessions._sessions[_life(at), at.token.id] = session

    return let_go


@contextmanager
def condition_unseen_in_replay() -> Iterator[None]:
    """A replay looks at conditions only when an operation has ended."""
    with mock.patch.object(Session, "_can_go_on", return_value=False):
        yield


@contextmanager
def refused_update_without_time() -> Iterator[None]:
    """A replay does not see the time of an update that did nothing, and so not the timers that were due by then."""

    def again(self: Session, record: Any, resumption: Any) -> None:
        if not (resumption.payload or {}).get("refused"):
            _update_again(self, record, resumption)

    with mock.patch.object(Session, "_update_again", again):
        yield


@contextmanager
def handlers_end_untold() -> Iterator[None]:
    """What a handler that is cancelled with its function leaves its caller is nothing."""

    async def awaited(self: FunctionSession, handler: Any, arguments: Mapping[str, object], resumption: Any) -> None:
        tell = self._answer
        self._answer = lambda resumption, answer: (  # type: ignore[method-assign]  # of this handler
            None if answer.get("error", {}).get("type") == "cancelled" else tell(resumption, answer)
        )
        await _awaited(self, handler, arguments, resumption)

    with mock.patch.object(FunctionSession, "_awaited", awaited):
        yield


@contextmanager
def query_of_the_past() -> Iterator[None]:
    """A session that is kept answers as it stands, whatever its log has since."""

    async def new_records(self: Sessions, at: Any, after: int) -> Sequence[Any]:
        return [] if after >= 0 > at.token.began_slot else await _new_records(self, at, after)

    async def answered(self: Sessions, at: Any, name: str) -> Any:
        with mock.patch.object(self, "_new_records", lambda at, after: new_records(self, at, after)):
            return await real(self, at, name)

    real = Sessions.answered
    with mock.patch.object(Sessions, "answered", answered):
        yield


@contextmanager
def signal_of_a_new_run_lost() -> Iterator[None]:
    """A start with an event that makes the run leaves the event out."""
    real = Sending.signal

    async def signal(self: Sending, header: Any, run_id: str, event: Any) -> Any:
        return None if header is None else await real(self, header, run_id, event)

    with mock.patch.object(Sending, "signal", signal):
        yield


@contextmanager
def timer_of_tasks_overtaken() -> Iterator[None]:
    """Who died before it set the timer of a record that begins nothing does not come back to it."""

    def after(token: Any, last: Any) -> dict[str, Any]:
        changes = _after(token, last)
        kept = {slot: one for slot, one in changes.get("tasks", {}).items() if one.open or one.cancelled}
        return {**changes, "tasks": kept} if "tasks" in changes else changes

    with mock.patch.object(tasks, "after", after):
        yield


OF_ASKED = (
    update_not_marked,
    updates_reordered,
    validator_not_asked,
    refusal_forgotten,
    update_put_off_by_nobody,
    session_of_an_update_kept,
    condition_unseen_in_replay,
    refused_update_without_time,
    handlers_end_untold,
    query_of_the_past,
    signal_of_a_new_run_lost,
    timer_of_tasks_overtaken,
)
