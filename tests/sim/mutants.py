"""Mutants of the engine: each takes one law of the protocol away, and the simulator must notice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

from stepwell.engine import effects as engine_effects
from stepwell.engine.effects import Register
from stepwell.engine.records import Record
from stepwell.engine.waits import run_of
from stepwell.local.memory_store import MemoryStore
from stepwell.runtime import worker
from stepwell.runtime.alarms import Alarms
from stepwell.runtime.coordinator import Coordinator
from stepwell.runtime.logbook import Forks, Standing
from stepwell.runtime.messages import Publish, Wake, to_json
from stepwell.runtime.perform import Performer
from stepwell.runtime.ports import Lane, Saved, StatusChange, Waiter
from stepwell.runtime.worker import Budget, Worker
from tests.sim.child_mutants import OF_CHILDREN
from tests.sim.dag_mutants import OF_DAGS
from tests.sim.fn_mutants import OF_FUNCTIONS
from tests.sim.fork_mutants import OF_FORKS
from tests.sim.lock_mutants import OF_LOCKS
from tests.sim.part_mutants import OF_PARTS
from tests.sim.undo_mutants import OF_UNDOING
from tests.sim.version_mutants import OF_DEPLOYS
from tests.sim.world import stop

_append = Worker._append
_publish = Coordinator.publish
_of_wait = engine_effects._of_wait


class _Idle(Performer):
    """A performer that forgets the effects of records."""

    async def perform(self, at: Standing, by: str, known: Forks | None = None) -> Standing | None:
        return None


@contextmanager
def no_conditional_append() -> Iterator[None]:
    """A writer always wins its slot."""

    async def append(self: MemoryStore, run_id: str, token: str, slot: int, body: str) -> str | None:
        log = self._log(run_id, token)
        log.append(slot, body)
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

    async def publish(self: Coordinator, publish: Publish) -> None:
        store = self._ports.store
        early = _EarlyWaits(store, list(await store.waiters(publish.event.topic)))
        ports = replace(self._ports, store=early)
        await _publish(Coordinator(ports, self._logbook, self._performer, self._catalog), publish)

    with mock.patch.object(Coordinator, "publish", publish):
        yield


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

    async def publish(self: Coordinator, publish: Publish) -> None:
        run_id, logbook = run_of(publish.event.topic), self._logbook
        if run_id is not None:
            logbook = _EarlyLog(self._logbook, await self._logbook.load(run_id))  # type: ignore[assignment]
            for _ in range(20):
                await stop("dawdling")
        await _publish(Coordinator(self._ports, logbook, self._performer, self._catalog), publish)

    with mock.patch.object(Coordinator, "publish", publish):
        yield


@contextmanager
def no_by() -> Iterator[None]:
    """A late or second wake pushes whatever it finds."""
    with mock.patch.object(worker, "is_stale", return_value=False):
        yield


@contextmanager
def effects_before_append() -> Iterator[None]:
    """What a record demands is done before the record has its slot."""

    async def append(self: Worker, at: Standing, record: Record) -> Standing | None:
        await self._performer.perform(at.after(record), record.by)
        return await _append(self, at, record)

    with mock.patch.object(Worker, "_append", append):
        yield


@contextmanager
def effects_once() -> Iterator[None]:
    """Only who appends a record performs its effects: a redelivered wake does not repeat them."""

    async def handle(self: Worker, wake: Wake, budget: Budget) -> None:
        starter = self._performer.children._starter
        idle = _Idle(self._ports, self._logbook, starter, self._performer.mailbox)
        first = Worker(self._ports, self._logbook, idle, self._steps, self._jitter)
        for token in wake.tokens:
            own = replace(wake, token=token, count=1)
            at = await self._logbook.load(wake.run_id, token)
            if at is None or worker.is_stale(at.token, own):
                continue
            following = await first._once(at, own, budget, {}, True)
            while following is not None:
                following = await self._once(following, own, budget, {}, False)

    with mock.patch.object(Worker, "handle", handle):
        yield


@contextmanager
def terminal_overwritten() -> Iterator[None]:
    """A worker whose slot was taken by an end writes its outcome behind it."""

    async def append(self: Worker, at: Standing, record: Record) -> Standing | None:
        following = await _append(self, at, record)
        if following is None:
            await self._logbook.append(at, replace(record, slot=record.slot + 1))
        return following

    with mock.patch.object(Worker, "_append", append):
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

    async def look_again(self: Alarms, lane: Lane, message: Wake, at_ms: int, came: object) -> None:
        await self._ports.timers.set(f"{message.run_id}.{message.id}", lane, to_json(message), at_ms)

    with mock.patch.object(Alarms, "look_again", look_again):
        yield


MUTANTS: dict[str, Callable[[], AbstractContextManager[None]]] = {
    mutant.__name__: mutant
    for mutant in (
        *OF_FORKS,
        *OF_FUNCTIONS,
        *OF_DAGS,
        *OF_CHILDREN,
        *OF_LOCKS,
        *OF_PARTS,
        *OF_UNDOING,
        *OF_DEPLOYS,
        no_conditional_append,
        wait_after_read,
        event_after_waits,
        event_after_log,
        no_by,
        effects_before_append,
        effects_once,
        terminal_overwritten,
        status_overwritten,
        early_timer_lost,
    )
}
