"""A hostile world for one run: workers that die at a write, and messages that come twice and out of order.

A worker is a coroutine that handles one message. It stops before and after each call to a port:

    message ── call ── call ── step ── call ── done        a worker that dies leaves its message behind,
                            ▲       ▲                      which another one takes at the same virtual time
                            stops, where it may die or another worker may go on
"""

from __future__ import annotations

import inspect
import math
import random
import time
import types
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Generator
from dataclasses import dataclass, replace
from typing import Any

from stepwell.errors import UserError
from stepwell.memory.clocks import VirtualClock
from stepwell.memory.inbox import Delivery, Inbox
from stepwell.memory.queue import MemoryQueue
from stepwell.runtime.assembly import Assembly
from stepwell.runtime.dispatch import dispatch
from stepwell.runtime.log.door import Unlimited
from stepwell.runtime.ports import Lane, Ports
from stepwell.testing.driver import Driver

MOST_STOPS = 1_000_000  # in one settling; more mean an endless loop
_LEASE_MS = 1_000 * 365 * 86_400_000  # messages come again because a worker died, never because it was slow
_WORKERS = 3  # at once, where messages are reordered
_BURSTS = (1, 1, 2, 4, 8, 16)  # stops that a worker passes before another has its turn
_DEATHS = 3  # at most, of one schedule by chance

WRITES = frozenset({
    "append", "arrive", "change_status", "create_run", "drop_note", "forget_waiter", "hold", "mark", "put",
    "put_definition", "put_event", "put_note", "put_waiter", "report", "rest", "save_snapshot", "send", "send_all",
    "set", "unmark", "watch",
})  # fmt: skip

_CACHES = frozenset({"save_snapshot"})  # of WRITES, those that readers make too


@dataclass(frozen=True, slots=True)
class Plan:
    """What befalls a run. The same plan does the same again.

    `dies_at`: the number of the write right before or after which its worker dies. `seed`: of the order of messages
    and of whose turn it is; None: one worker, in order. `doubled`: each message comes twice. `deaths`: how likely a
    worker dies at a stop.
    """

    name: str = "undisturbed"
    dies_at: int = -1
    dies_after: bool = False
    seed: int | None = None
    doubled: bool = False
    deaths: float = 0.0


@dataclass(frozen=True, slots=True)
class Stop:
    """A place where a worker can die: before or after a call to a port."""

    call: str
    is_after: bool


@types.coroutine
def _stop(at: Stop) -> Generator[Stop, None, None]:
    yield at


@dataclass(frozen=True, slots=True)
class Written:
    """A durable write of the undisturbed run, and whether a step ran since the one before."""

    call: str
    after_step: str


@dataclass(eq=False)
class _Worker:
    """Someone at work on a message, or on a call of a client, who repeats it until it is answered."""

    work: Coroutine[Any, Any, Any]
    delivery: Delivery | None = None
    call: _Call | None = None
    has_written: bool = False


@dataclass(frozen=True, slots=True)
class _Call:
    """A client's call. `may_be_made`: a worker that died in it had written; a refusal may then be for that reason."""

    make: Callable[[], Coroutine[Any, Any, Any]]
    may_be_made: bool = False


class OutOfTime(Exception):
    """The real time for the verification is over, in the middle of a trial."""


class Chaos:
    """Which worker is at work now, and what it wrote: shared by the ports and the driver of one run."""

    def __init__(self, plan: Plan, until: float = math.inf) -> None:
        """`until`: when the real time is over, by `time.monotonic`."""
        self.plan, self.until = plan, until
        self.is_working = False
        self.written: list[Written] = []
        self.stepped = ""  # the step that ran since the last write

    def note(self, at: Stop) -> None:
        """Counts a write before it is made."""
        if at.call in WRITES and not at.is_after:
            self.written.append(Written(at.call, self.stepped))
            self.stepped = ""

    def ports(self, ports: Ports) -> Ports:
        """Returns these ports with a stop before and after each call of a worker."""
        store = StoppingPort(ports.log, self)
        queue = StoppingPort(ports.queue, self)
        return replace(ports, log=store, mailbox=store, runs=store, notes=store, slots=store, queue=queue,
                       timers=queue, blobs=StoppingPort(ports.blobs, self))  # fmt: skip


class StoppingPort:
    """Any port, with a stop before and after each call that a worker makes."""

    def __init__(self, inner: Any, chaos: Chaos) -> None:
        self._inner, self._chaos = inner, chaos

    def __getattr__(self, name: str) -> Any:
        method, chaos = getattr(self._inner, name), self._chaos
        if not inspect.iscoroutinefunction(method):
            return method

        async def call(*args: Any, **named: Any) -> Any:
            if not chaos.is_working:
                return await method(*args, **named)
            await _stop(Stop(name, is_after=False))
            made = await method(*args, **named)
            await _stop(Stop(name, is_after=True))
            return made

        self.__dict__[name] = call
        return call


class ShuffledQueue(MemoryQueue):
    """The queue in memory; with a seed, messages come in any order, and twice if the plan says so.

    A doubled message is there twice at most. Else a timer that looks again every 15 minutes would double each time:

    2 timers ── each sends 2 ── 4 ── 8 ── … 2 ** 80 in the 20 hours before a time limit
    """

    def __init__(self, clock: VirtualClock, plan: Plan) -> None:
        super().__init__(clock)
        self._copies = 2 if plan.doubled else 1
        self._rng = None if plan.seed is None else random.Random(f"order {plan.seed}")  # noqa: S311  a schedule

    def _put(self, lane: Lane, text: str, due_ms: int) -> None:
        there = 0 if self._copies == 1 else sum(
            one.due_ms == due_ms and one.lane is lane and one.text == text and not one.receipt
            for one in self._messages.values()
        )  # fmt: skip
        for _ in range(there, self._copies):
            super()._put(lane, text, due_ms)

    def receive(self, lanes: Collection[Lane], now_ms: int, lease_ms: int) -> Delivery | None:
        due = [(number, one) for number, one in self._messages.items() if one.due_ms <= now_ms and one.lane in lanes]
        if self._rng is None or not due:
            return super().receive(lanes, now_ms, lease_ms)
        number, message = self._rng.choice(due)
        self._move(number, message, -1)  # the first of its lane
        return super().receive((message.lane,), now_ms, lease_ms)


class ChaosDriver(Driver):
    """Drives one run by a plan. A worker that dies leaves its message or call to another, at the same time."""

    def __init__(
        self, parts: Assembly, inbox: Inbox, clock: VirtualClock, chaos: Chaos, die: Callable[[], None]
    ) -> None:
        """`die` lets go of what a process held in memory."""
        super().__init__(parts, inbox, clock)
        self._chaos, self._die = chaos, die
        plan = chaos.plan
        self._rng = random.Random(f"turns {plan.seed}")  # noqa: S311  a schedule
        self._workers: list[_Worker] = []
        self._calls: deque[_Call] = deque()
        self._turns, self._deaths = 0, 0
        self._refusal: UserError | None = None

    def call(self, make: Callable[[], Coroutine[Any, Any, Any]]) -> UserError | None:
        """Makes a client's call, again if its worker dies. Returns its refusal."""
        self._refusal = None
        self._calls.append(_Call(make))
        self.settle()
        return self._refusal

    def settle(self) -> None:
        for _ in range(MOST_STOPS):
            self._hire()
            if not self._workers:
                return
            self._move(self._whose_turn())
        raise AssertionError(f"{MOST_STOPS} calls did not settle: does a workflow loop forever?")

    def next_due_ms(self) -> int | None:
        """Returns when the next message is due; None if there is none."""
        return self._inbox.next_due_ms()

    def jump(self, time_ms: int) -> None:
        """Moves the clock to a time at which something is due."""
        self._move_to(time_ms)

    def _hire(self) -> None:
        most = 1 if self._chaos.plan.seed is None else _WORKERS
        while len(self._workers) < most:
            if self._workers and self._rng.random() < 0.7:  # the others get on before
                return
            if self._calls:
                call = self._calls.popleft()
                self._workers.append(_Worker(call.make(), call=call))
                continue
            delivery = self._inbox.receive(tuple(Lane), self._clock.now_ms(), _LEASE_MS)
            if delivery is None:
                return
            work = dispatch(self._parts, delivery.lane, delivery.message, Unlimited(delivery.deliveries))
            self._workers.append(_Worker(work, delivery))

    def _whose_turn(self) -> _Worker:
        """Bursts: a worker often goes on for a while, so that another falls far behind."""
        if self._turns <= 0 and len(self._workers) > 1:
            self._workers.append(self._workers.pop(self._rng.randrange(len(self._workers))))
            self._turns = self._rng.choice(_BURSTS)
        self._turns -= 1
        return self._workers[-1]

    def _move(self, worker: _Worker) -> None:
        """To the worker's next stop, or to its end. Raises OutOfTime."""
        if time.monotonic() > self._chaos.until:
            for one in self._workers:
                one.work.close()
            raise OutOfTime
        self._chaos.is_working = True
        try:
            stopped = worker.work.send(None)
        except StopIteration:
            self._end(worker)
            return
        except UserError as refusal:
            if worker.call is None:
                raise
            self._refusal = None if worker.call.may_be_made else refusal
            self._end(worker)
            return
        finally:
            self._chaos.is_working = False
        if isinstance(stopped, Stop):
            self._chaos.note(stopped)
            worker.has_written |= stopped.is_after and stopped.call in WRITES - _CACHES
            if self._must_die(stopped):
                self._kill(worker)

    def _must_die(self, at: Stop) -> bool:
        plan = self._chaos.plan
        if plan.deaths:
            return self._deaths < _DEATHS and self._rng.random() < plan.deaths
        is_there = len(self._chaos.written) - 1 == plan.dies_at and at.is_after is plan.dies_after
        return is_there and at.call in WRITES and not self._deaths

    def _kill(self, worker: _Worker) -> None:
        self._deaths += 1
        self._workers.remove(worker)
        worker.work.close()
        self._die()
        if worker.delivery is not None:
            self._inbox.release(worker.delivery, self._clock.now_ms())
        elif worker.call is not None:
            self._calls.append(replace(worker.call, may_be_made=worker.call.may_be_made or worker.has_written))

    def _end(self, worker: _Worker) -> None:
        self._workers.remove(worker)
        if worker.delivery is not None:
            self._inbox.delete(worker.delivery)
