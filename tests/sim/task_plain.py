"""A durable function with tasks, run plainly: on asyncio's own loop and tasks, whose operations end as a log says."""

from __future__ import annotations

import asyncio
import heapq
import random
from asyncio.base_events import BaseEventLoop
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, nullcontext
from contextvars import Context
from datetime import UTC, datetime
from itertools import count
from types import SimpleNamespace
from typing import Any, TypeVarTuple
from uuid import UUID

from stepwell.engine.durable.journal import LOST
from stepwell.engine.fold import fold
from stepwell.engine.records import ENDED, ROOT, UPDATE, End, Failure, Goto, Kind, Record
from stepwell.engine.token import Token
from stepwell.runtime.durable.failures import raised
from stepwell.runtime.durable.racing import all_of, first_of
from tests.sim.asked_plain import PlainHandlers
from tests.sim.fn_code import workflow
from tests.sim.fn_programs import said
from tests.sim.fn_shapes import OddLogError, check, is_for_code

Ts = TypeVarTuple("Ts")


class Cut(BaseException):
    """The log ends, or something ended the run from outside, where the program would go on."""


class PlainContext:
    """`ctx`, of which only the loop knows what comes."""

    run_id = workflow = ""

    def __init__(self, state: dict[str, Any], chance: random.Random) -> None:
        self.state, self._chance = state, chance
        self.loop: PlainLoop
        self.handlers = PlainHandlers()
        self.update, self.query = self.handlers.update, self.handlers.query

    def step(self, function: Any, say: int, given: Any, fails: int, *, name: str, **options: Any) -> Awaitable[Any]:
        return self.loop.ask(f"step {name}", {"say": say, "given": given, "fails": fails})

    async def run(self, function: Callable[[], Any], *, name: str, **options: Any) -> Any:
        """What it gave is the log's to say. It was called in its place: its own part of that is known."""
        here, made = function(), await self.loop.ask(f"run {name}")
        if {**made, "now": 0} != here:
            raise OddLogError(f"{name} gave {made}; called in its place it gives {here}")
        return made

    async def first(self, *awaited: Any) -> Any:
        winner, value = await first_of(awaited)
        return SimpleNamespace(winner=winner, value=value)

    async def map(self, function: Callable[[Any], Any], items: Sequence[Any], *, max_concurrency: int,
                  tolerate: Mapping[str, int]) -> Any:  # fmt: skip
        return await all_of([function(item) for item in items], max_concurrency, tolerate["count"])

    async def until(self, condition: Callable[[], object], *, timeout: float) -> None:
        if not condition():
            async with asyncio.timeout(timeout):
                await self.handlers.until(condition, self.loop.create_future())

    def lock(self, name: str) -> AbstractAsyncContextManager[None]:
        return _PlainLock(self.loop)

    def transact(self, writes: Sequence[Any], *, name: str) -> Awaitable[Any]:
        """Whether it is refused is the log's to say."""
        return self.loop.ask(f"transact {name}")

    def limit(self, name: str) -> AbstractAsyncContextManager[None]:
        """How long a step waits for its permit is the log's to say."""
        return nullcontext()

    def sleep(self, seconds: float) -> Awaitable[Any]:
        return self.loop.ask("sleep")

    def event(self, name: str, **options: Any) -> Awaitable[Any]:
        return self.loop.ask(f"event {name}")

    def approval(self, **options: Any) -> Awaitable[Any]:
        return self.loop.ask("approval")

    async def child(self, workflow: str, given: Any, **options: Any) -> Any:
        values = await self.loop.ask(f"children {workflow}")
        return values[workflow]

    def continue_as(self, function: Any, program: Mapping[str, Any]) -> Any:
        return None

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.loop.now_ms / 1_000, UTC)

    def uuid(self) -> UUID:
        return UUID(int=self._chance.getrandbits(128), version=4)

    def random(self) -> float:
        return self._chance.random()


class _PlainLock(AbstractAsyncContextManager[None]):
    """When a lock is taken is the log's to say."""

    def __init__(self, loop: PlainLoop) -> None:
        self._loop = loop

    async def __aenter__(self) -> None:
        await self._loop.ask("lock lock")

    async def __aexit__(self, kind: Any, *raised: object) -> None:
        if kind is not GeneratorExit:
            await self._loop.ask("unlock unlock")


class _Asked:
    """An operation, once a task has come to it."""

    def __init__(self, name: str, given: Any, future: asyncio.Future[Any]) -> None:
        self.name, self.given, self.future = name, given, future
        self.is_of_lock = name in {"lock lock", "unlock unlock"}


class _Timer(asyncio.TimerHandle):
    """asyncio's own, with a number."""

    _when: float  # here and below: asyncio's own, too
    _scheduled: bool

    def __init__(self, when: float, callback: Any, args: Any, loop: Any, context: Any, number: int) -> None:
        super().__init__(when, callback, args, loop, context)
        self._number = number

    def __lt__(self, other: Any) -> bool:
        return (self._when, self._number) < (other._when, other._number)


class _Task(asyncio.Task[Any]):
    """asyncio's own, whose place in a set is not by its address."""

    def __init__(self, coro: Any, place: int, **options: Any) -> None:
        self._place = place  # first, as asyncio puts the task into a set
        super().__init__(coro, **options)

    def __hash__(self) -> int:
        return self._place

    def __eq__(self, other: object) -> bool:
        return self is other


class PlainLoop(BaseEventLoop):
    """asyncio's own; when nothing is ready, the log has the next word."""

    _ready: deque[Any]
    _scheduled: list[asyncio.TimerHandle]
    since = 0

    def __init__(
        self,
        logs: Mapping[str, Sequence[Record]],
        records: Sequence[Record],
        now_ms: int,
        ctx: PlainContext,
        order: random.Random,
    ) -> None:
        """`order`: of sets of tasks."""
        super().__init__()
        self.now_ms, self._logs, self._records, self._at = now_ms, logs, records, 0
        self._clock_resolution = 0.000_5
        self._selector = SimpleNamespace(select=self._select, close=lambda: None)
        self._asked: list[_Asked] = []
        self._open: dict[str, _Asked] = {}
        self._has_lock, self._order = False, order
        self._tasks: list[asyncio.Task[Any]] = []
        self._numbers = count()
        self._handlers = ctx.handlers
        self._ctx = ctx
        ctx.loop = self
        self.shown: dict[int, Any] = {}  # by slot: what a query is answered after that record
        self.set_task_factory(self._made)

    def _made(self, loop: Any, coro: Any, **options: Any) -> asyncio.Task[Any]:
        made = _Task(coro, self._order.getrandbits(32), loop=self, **options)
        self._tasks.append(made)
        return made

    def made_since(self, slot: int) -> AbstractContextManager[None]:
        """Here a task has no name that tells since when it is known."""
        return nullcontext()

    def play(self, program: Mapping[str, Any]) -> Any:
        """What the function returns or raises, with all that it left behind cancelled."""
        run: Any = workflow("sim", lambda: 1)
        body = run(self._ctx, {**program, "again": 0})
        main = asyncio.Task(body, loop=self)
        try:
            main.add_done_callback(lambda _: self.stop())
            self.run_forever()  # how it ended is looked at below, with what it left behind
            if not main.cancelled() and isinstance(odd := main.exception(), OddLogError):
                raise odd
            left = [task for task in self._tasks if not task.done()]
            for task in left:
                task.cancel()
            if left:
                self.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            return asyncio.CancelledError() if main.cancelled() else main.exception() or main.result()
        finally:
            self._close(main)

    def _close(self, main: asyncio.Task[Any]) -> None:
        for task in (*self._tasks, main):
            task._log_destroy_pending = False  # type: ignore[attr-defined]  # asyncio's own
            if not task.done():
                task.get_coro().close()
            elif not task.cancelled():
                task.exception()
        self.call_exception_handler = lambda context: None  # type: ignore[method-assign]  # of what is left
        self._ready.clear()
        self._scheduled.clear()
        self.close()

    def time(self) -> float:
        return self.now_ms / 1_000

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Of two timers of one time, the one that was set first is first. asyncio itself leaves it open."""
        handle = _Timer(when, callback, args, self, context, next(self._numbers))
        heapq.heappush(self._scheduled, handle)
        handle._scheduled = True
        return handle

    def ask(self, name: str, given: Any = None) -> Awaitable[Any]:
        return self._awaited(name, given)

    async def _awaited(self, name: str, given: Any) -> Any:
        asked = _Asked(name, given, self.create_future())
        self._asked.append(asked)
        return await asked.future

    # -- the log

    def _run_once(self) -> None:
        self._look()
        super()._run_once()  # type: ignore[misc]  # of asyncio's own

    def _look(self) -> None:
        """A condition is looked at when nothing else can go on."""
        if not self._ready:
            self._handlers.look()

    def _show(self, slot: int) -> None:
        """Between two records, where nothing can go on."""
        if self._handlers.queries:
            self.shown[slot] = self._handlers.queries["items"]()

    def _select(self, seconds: float | None) -> list[Any]:
        if seconds != 0:
            self._feed()
            self._look()  # before the timers that are due now
        return []

    def _process_events(self, events: list[Any]) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        """Nobody else has this loop."""

    def _peek(self) -> Record:
        while self._at < len(self._records) and is_for_code(self._records[self._at]):
            self._at += 1
            self._skip_code()
        if self._at >= len(self._records) or self._records[self._at].kind is Kind.ENDED:
            raise Cut
        if LOST in self._records[self._at].rules:
            raise Cut
        return self._records[self._at]

    def _skip_code(self) -> None:
        """The end of a wait for code. Operations may end before that."""
        at = self._at
        while at < len(self._records):
            came, kind = self._records[at].resumption, self._records[at].kind
            if kind not in {Kind.RECEIVED, Kind.RESUMED} or came is None:
                return
            if came.kind != ENDED:
                self._records = [*self._records[:at], *self._records[at + 1 :]]
                return
            at += 1

    def _next(self) -> Record:
        record = self._peek()
        self._at += 1
        for update, answer in (record.answers or {}).items():
            self._handlers.check_answer(record, update, answer)
        return record

    def returned(self) -> Record | None:
        """The function's end; None where it was ended from outside."""
        try:
            record = self._next()
            while record.kind in {Kind.RECEIVED, Kind.RESUMED}:  # what came before that was written
                if record.resumption and record.resumption.kind == ENDED:
                    check(record, "it ends", self._open.pop(record.resumption.part, None) is not None, True)
                record = self._next()
        except Cut:
            return None
        check(record, "it is", record.kind, Kind.RETURNED)
        check(record, "answers that nobody hears of are", self._handlers.answers, {})
        self._show(record.slot)
        if isinstance(record.next, End) and self._at < len(self._records):
            raise OddLogError(f"slot {record.slot} ends it, and records follow")
        return record

    def _feed(self) -> None:
        """What comes next: time, an update, or the end of an operation."""
        self._show(self._peek().slot - 1)
        record = self._next()
        self._asked = [one for one in self._asked if not one.future.done()]
        came = record.resumption
        if record.kind is Kind.WAITING and record.parked is not None and record.parked.of_tasks:
            self._claim(record)
        elif came is not None and came.kind == UPDATE:
            self._updated(record)
        elif came is not None and came.kind == ENDED:
            self.now_ms = record.at_ms
            self._operation_ended(record, came.part)
        elif came is not None and came.kind == "timer":
            self.now_ms = record.at_ms
        else:
            self._alone(record)

    def _fresh(self) -> list[_Asked]:
        """What begins now: of what its tasks do with locks the first that can, once there is nothing else."""
        fresh = [one for one in self._asked if not one.is_of_lock]
        able = [one for one in self._asked if one.is_of_lock and (one.name != "lock lock" or not self._has_lock)]
        return fresh or able[:1]

    def _updated(self, record: Record) -> None:
        self.now_ms = record.at_ms
        self._handlers.take(record, self)

    def _claim(self, record: Record) -> None:
        if record.parked is None:
            return
        begun = record.parked.data["begun"]
        fresh = [one for one in self._asked if not one.is_of_lock]  # those wait until nothing is under way
        cancelled = [place for place, one in self._open.items() if one.future.cancelled()]
        if len(cancelled) > 1:  # a group cancels its tasks in the order of a set: asyncio says nothing of it
            fresh = _in_order(fresh, begun)
        check(record, "its tasks begin", begun, [one.name for one in fresh])
        for index, one in enumerate(fresh):
            self._open[f"{record.slot}.{index}"] = one
        self._asked = [one for one in self._asked if one.is_of_lock]
        check(record, "its tasks cancel", set(record.parked.cancelled), set(cancelled))
        for place in cancelled:
            del self._open[place]

    def _operation_ended(self, record: Record, place: str) -> None:
        if place not in self._open:
            raise OddLogError(f"slot {record.slot} ends {place}, which is not under way")
        branch = fold(self._logs[f"{ROOT}/{place}"], Token(f"{ROOT}/{place}"))
        if branch.end is None:
            raise OddLogError(f"slot {record.slot} ends {place}, which has not ended")
        error = branch.end.error
        expected = (branch.result, None) if error is None else (None, error.type)
        check(record, "it gives", (record.output, record.error and record.error.type), expected)
        self._end(self._open.pop(place), record, record.output, record.error)

    def _end(self, one: _Asked, record: Record, value: Any, error: Failure | None) -> None:
        if one.given is not None and error is None:
            check(record, "it gives", value, said(one.given))
        if one.future.done():
            return
        if error is not None:
            one.future.set_exception(raised(error))
        else:
            one.future.set_result(value)

    def _alone(self, record: Record) -> None:
        """An operation beside which there is nothing, or a sleep of the tasks."""
        if self._open:
            raise OddLogError(f"slot {record.slot} is {record.kind} {record.node}, and tasks are under way")
        fresh = self._fresh()
        if record.kind is Kind.WAITING and record.node == "sleep" and not fresh:
            self.now_ms = self._next().at_ms
            return
        check(record, "it begins", [record.node], [one.name.rpartition(" ")[2] for one in fresh])
        one = fresh.pop()
        self._asked.remove(one)
        self._has_lock = one.name == "lock lock" or (self._has_lock and not one.is_of_lock)
        while record.kind in {Kind.BEGAN, Kind.WAITING} or not isinstance(record.next, Goto | type(None)):
            record = self._next()
            while record.resumption is not None and record.resumption.kind == UPDATE:
                self._updated(record)
                self._show(record.slot)
                record = self._next()
        self.now_ms = record.at_ms
        came = record.resumption
        if came is None:
            self._end(one, record, record.output, record.error)
        elif came.kind == "timeout":
            what = next(what for what in ("children", "approval", "event") if one.name.startswith(what))
            self._end(one, record, None, Failure(f"{what}_timeout", "timeout", ""))
        elif came.kind in {"child_failed", "rejected"}:
            self._end(one, record, None, Failure(came.kind, "step", ""))
        else:
            value = {"decision": came.kind, "by": came.by} if one.name == "approval" else came.payload
            self._end(one, record, value if came.kind != "timer" else None, None)


def _in_order(asked: Sequence[_Asked], names: Sequence[str]) -> list[_Asked]:
    """Returns the operations in the order of these names, as far as these name them."""
    found = list[_Asked]()
    for name in names:
        found += [one for one in asked if one.name == name and one not in found][:1]
    return found + [one for one in asked if one not in found]
