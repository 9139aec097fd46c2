"""Mutants of the engine: each takes one law of the protocol away, and the simulator must notice."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from typing import Any
from unittest import mock

from stepwell.engine import decide
from stepwell.engine import effects as engine_effects
from stepwell.engine.actions import Write
from stepwell.engine.effect_kinds import Register
from stepwell.engine.waits import run_of
from stepwell.memory.store import MemoryStore
from stepwell.runtime.log.alarms import Alarms
from stepwell.runtime.log.door import Answer, Budget, Door
from stepwell.runtime.log.messages import Publish, Wake, to_json
from stepwell.runtime.log.standing import Standing
from stepwell.runtime.loop import worker
from stepwell.runtime.loop.advance import Advance
from stepwell.runtime.loop.coordinator import Coordinator
from stepwell.runtime.loop.worker import Worker
from stepwell.runtime.ports import Appended, Lane, Saved, Waiter
from stepwell.runtime.ports.headers import StatusChange
from tests.sim.actors import stop
from tests.sim.doors import OF_WORKERS, before_append

_handle, _put, _settle = Worker.handle, Door.put, Advance.settle
_append = MemoryStore.append
_publish = Coordinator.publish
_of_wait = engine_effects._of_wait


@contextmanager
def no_conditional_append() -> Iterator[None]:
    """A writer always wins its slot."""

    async def append(self: MemoryStore, run_id: str, token: str, slot: int, body: str, **named: Any) -> Appended:
        if named["consumes"]:
            return await _append(self, run_id, token, slot, body, **named)
        log = self._log(run_id, token)
        log.slots = sorted({*log.slots, slot})
        log.records[slot] = Saved(slot, body)
        return None

    with mock.patch.object(MemoryStore, "append", append):
        yield


@contextmanager
def wait_after_read() -> Iterator[None]:
    """The waiter reads the mailbox first and registers its wait after."""

    def of_wait(*args: Any) -> tuple[Any, ...]:
        return tuple(sorted(_of_wait(*args), key=lambda effect: isinstance(effect, Register)))

    with mock.patch.object(engine_effects, "_of_wait", of_wait):
        yield


class _EarlyWaits:
    """A store whose waits are as they were before the event was written."""

    def __init__(self, store: Any, waiters: list[Waiter]) -> None:
        self._store, self._waiters = store, waiters

    async def waiters(self, topic: object) -> list[Waiter]:
        return self._waiters

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


@contextmanager
def event_after_waits() -> Iterator[None]:
    """The publisher reads the waits first and writes its event after."""

    async def publish(self: Coordinator, publish: Publish, budget: Budget) -> None:
        mailbox = self._ports.mailbox
        early: Any = _EarlyWaits(mailbox, list(await mailbox.waiters(publish.event.topic)))
        ports = replace(self._ports, mailbox=early)
        await _publish(_with(self, ports=ports), publish, budget)

    with mock.patch.object(Coordinator, "publish", publish):
        yield


def _with(coordinator: Coordinator, **parts: Any) -> Coordinator:
    """The coordinator with other parts."""
    other = copy(coordinator)
    other.__dict__.update({f"_{name}": part for name, part in parts.items()})
    return other


class _EarlyLog:
    """A logbook whose first look is from before the event was written."""

    def __init__(self, logbook: Any, early: Standing | None) -> None:
        self._logbook, self._early = logbook, [early]

    async def load(self, *where: str) -> Standing | None:
        found: Standing | None = self._early.pop() if self._early else await self._logbook.load(*where)
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._logbook, name)


@contextmanager
def event_after_log() -> Iterator[None]:
    """The publisher to a run reads its log first and writes its event after, when it gets round to it."""

    async def publish(self: Coordinator, publish: Publish, budget: Budget) -> None:
        run_id = run_of(publish.event.topic)
        logbook: Any = self._logbook
        if run_id is not None:
            logbook = _EarlyLog(self._logbook, await self._logbook.load(run_id))
            for _ in range(20):
                await stop("dawdling")
        await _publish(_with(self, logbook=logbook), publish, budget)

    with mock.patch.object(Coordinator, "publish", publish):
        yield


@contextmanager
def no_by() -> Iterator[None]:
    """A late or second wake pushes whatever it finds."""
    never = mock.Mock(return_value=False)
    with mock.patch.object(worker, "is_stale", never), mock.patch.object(decide, "is_stale", never):
        yield


@contextmanager
def effects_before_append() -> Iterator[None]:
    """What a record demands is done before the record has its slot."""

    async def before(advance: Advance, at: Standing, by: str) -> None:
        await _settle(advance, at, by)

    with before_append(before):
        yield


@contextmanager
def effects_once() -> Iterator[None]:
    """Only who appends a record performs its effects: a redelivered wake does not repeat them."""

    async def settled(self: Advance, at: Standing, by: str, *rest: Any, **options: Any) -> Standing | None:
        is_first = by.startswith("wake:") and (at.run_id, at.token.id, at.token.slot) not in written
        return None if is_first else await _settle(self, at, by, *rest, **options)

    written: set[tuple[str, str, int]] = set()

    async def put(self: Door, *given: Any, **options: Any) -> Answer:
        answer = await _put(self, *given, **options)
        if answer.is_new:
            written.add((answer.at.run_id, answer.at.token.id, answer.at.token.slot))
        return answer

    async def handle(self: Worker, *given: Any) -> None:
        written.clear()
        await _handle(self, *given)

    with (
        mock.patch.object(Advance, "settle", settled),
        mock.patch.object(Door, "put", put),
        mock.patch.object(Worker, "handle", handle),
    ):
        yield


@contextmanager
def terminal_overwritten() -> Iterator[None]:
    """A worker whose slot was taken by an end writes its outcome behind it."""

    async def put(self: Door, at: Standing, given: Any, by: str, *rest: Any, **options: Any) -> Answer:
        action = self.decide(at, given, by)
        answer = await _put(self, at, given, by, *rest, **options)
        if isinstance(given, OF_WORKERS) and isinstance(action, Write) and not answer.is_mine:
            late = replace(action, record=replace(action.record, slot=action.record.slot + 1))
            await self._logbook.append(at, late, (late.record,))
        return answer

    with mock.patch.object(Door, "put", put):
        yield


@contextmanager
def status_overwritten() -> Iterator[None]:
    """An older status change undoes a newer one."""
    real = MemoryStore.change_status

    async def change_status(self: MemoryStore, change: StatusChange) -> bool:
        header = self._runs.get(change.run_id)
        if header is not None:
            self._runs[change.run_id] = replace(header, rev=change.rev - 1)
        return await real(self, change)

    with mock.patch.object(MemoryStore, "change_status", change_status):
        yield


@contextmanager
def early_timer_lost() -> Iterator[None]:
    """A message that came early is armed again under the timer's own name, which has been used up."""

    async def look_again(self: Alarms, lane: Lane, message: Wake, at_ms: int, came: object, made_ms: int) -> None:
        await self._ports.timers.set(f"{message.run_id}.{made_ms}.{message.id}", lane, to_json(message), at_ms)

    with mock.patch.object(Alarms, "look_again", look_again):
        yield


OF_RACE = (event_after_waits, event_after_log)
OF_ALL = (
    no_conditional_append,
    wait_after_read,
    no_by,
    effects_before_append,
    effects_once,
    terminal_overwritten,
    status_overwritten,
    early_timer_lost,
)
