"""The law of tasks: a run is what plain asyncio makes of the same ends, in the same order.

The program runs on asyncio's own loop and tasks. Its operations end when the log says so; what it asks for, cancels and
returns must then be what the log holds.
"""

from __future__ import annotations

import asyncio
import random
from asyncio.base_events import BaseEventLoop
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import count
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from stepwell.engine.fold import fold
from stepwell.engine.journal import LOST
from stepwell.engine.records import ENDED, ROOT, End, Failure, Goto, Kind, Record
from stepwell.engine.token import Token
from stepwell.runtime.durable.failures import raised
from stepwell.runtime.durable.racing import all_of, first_of
from tests.sim.fn_code import digest, workflow
from tests.sim.fn_programs import has_tasks, said
from tests.sim.fn_shapes import OddLogError, from_json, is_for_code
from tests.sim.world import World


class _Cut(BaseException):
    """The log ends, or something ended the run from outside, where the program would go on."""


def laws_of_tasks(world: World, logs: dict[str, list[Record]]) -> Iterator[str]:
    """Of one run of a durable function with tasks."""
    if not has_tasks(world.program) or not logs.get(ROOT):
        return
    try:
        _run(world, logs)
    except OddLogError as odd:
        yield f"tasks: {world.run_id} {odd}"


def _run(world: World, logs: dict[str, list[Record]]) -> None:
    header, log = world.memory._runs[world.run_id], logs[ROOT]
    given, slot = from_json(header.input), -1
    now_ms, state = max(header.created_ms, header.start_at_ms), dict[str, Any]()
    while True:
        program = given.get("program", given)
        chance = random.Random(f"{world.run_id} {ROOT} {slot}")
        loop = _Loop(logs, log[slot + 1 :], now_ms, _Context(state, chance))
        try:
            value = loop.play(program)
        except _Cut:
            return
        last = loop.returned()
        if last is None:
            return
        if isinstance(value, BaseException):
            kind = getattr(value, "type", type(value).__name__)
            _is(last, "it fails with", last.error and last.error.type, kind)
            return
        if not program.get("again"):
            _is(last, "it returns", last.output, value)
            _is(last, "its state is", dict(fold(log, Token()).scope), state)
            return
        given = {"program": {**program, "again": program["again"] - 1, "carry": digest(value)}}
        _is(last, "it begins anew with", (last.output, type(last.next)), (given, Goto))
        slot, now_ms = last.slot, last.at_ms


def _is(record: Record, what: str, found: Any, expected: Any) -> None:
    if found != expected:
        raise OddLogError(f"slot {record.slot}: {what} {found!r}; plain asyncio makes {expected!r}")


class _Context:
    """`ctx`, of which only the loop knows what comes."""

    run_id = workflow = ""

    def __init__(self, state: dict[str, Any], chance: random.Random) -> None:
        self.state, self._chance = state, chance
        self.loop: _Loop

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

    def sleep(self, seconds: float) -> Awaitable[Any]:
        return self.loop.ask("sleep")

    def event(self, name: str, **options: Any) -> Awaitable[Any]:
        return self.loop.ask(f"event {name}")

    def continue_as(self, function: Any, program: Mapping[str, Any]) -> Any:
        return None

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.loop.now_ms / 1_000, UTC)

    def uuid(self) -> UUID:
        return UUID(int=self._chance.getrandbits(128), version=4)

    def random(self) -> float:
        return self._chance.random()


class _Asked:
    """An operation, once a task has come to it."""

    def __init__(self, name: str, given: Any, future: asyncio.Future[Any]) -> None:
        self.name, self.given, self.future = name, given, future


class _Loop(BaseEventLoop):
    """asyncio's own; when nothing is ready, the log has the next word."""

    def __init__(
        self, logs: Mapping[str, Sequence[Record]], records: Sequence[Record], now_ms: int, ctx: _Context
    ) -> None:
        super().__init__()
        self.now_ms, self._logs, self._records, self._at = now_ms, logs, records, 0
        self._clock_resolution = 0.000_5
        self._selector = SimpleNamespace(select=self._select, close=lambda: None)
        self._asked: list[_Asked] = []
        self._open: dict[str, _Asked] = {}
        self._tasks: list[asyncio.Task[Any]] = []
        self._numbers = count()
        self._ctx = ctx
        ctx.loop = self
        self.set_task_factory(self._made)

    def _made(self, loop: Any, coro: Any, **options: Any) -> asyncio.Task[Any]:
        made = asyncio.Task(coro, loop=self, **options)
        self._tasks.append(made)
        return made

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
            task._log_destroy_pending = False
            if not task.done():
                task.get_coro().close()  # type: ignore[union-attr]  # a coroutine
            elif not task.cancelled():
                task.exception()
        self.call_exception_handler = lambda context: None  # type: ignore[method-assign]  # of what is left
        self._ready.clear()
        self._scheduled.clear()
        self.close()

    def time(self) -> float:
        return self.now_ms / 1_000

    def ask(self, name: str, given: Any = None) -> Awaitable[Any]:
        return self._awaited(name, given)

    async def _awaited(self, name: str, given: Any) -> Any:
        asked = _Asked(name, given, self.create_future())
        self._asked.append(asked)
        return await asked.future

    # -- the log

    def _select(self, seconds: float | None) -> list[Any]:
        if seconds != 0:
            self._feed()
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
            raise _Cut
        if LOST in self._records[self._at].rules:
            raise _Cut
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
        return record

    def returned(self) -> Record | None:
        """The function's end; None where it was ended from outside."""
        try:
            record = self._next()
            while record.kind in {Kind.RECEIVED, Kind.RESUMED}:  # what came before that was written
                if record.resumption and record.resumption.kind == ENDED:
                    _is(record, "it ends", self._open.pop(record.resumption.part, None) is not None, True)
                record = self._next()
        except _Cut:
            return None
        _is(record, "it is", record.kind, Kind.RETURNED)
        if isinstance(record.next, End) and self._at < len(self._records):
            raise OddLogError(f"slot {record.slot} ends it, and records follow")
        return record

    def _feed(self) -> None:
        """What comes next: time, or the end of an operation."""
        record = self._next()
        self._asked = [one for one in self._asked if not one.future.done()]
        came = record.resumption
        if record.kind is Kind.WAITING and record.parked is not None and record.parked.of_tasks:
            self._claim(record)
        elif came is not None and came.kind == ENDED:
            self.now_ms = record.at_ms
            self._operation_ended(record, came.part)
        elif came is not None and came.kind == "timer":
            self.now_ms = record.at_ms
        else:
            self._alone(record)

    def _claim(self, record: Record) -> None:
        if record.parked is None:
            return
        begun = record.parked.data["begun"]
        _is(record, "its tasks begin", begun, [one.name for one in self._asked])
        for index, one in enumerate(self._asked):
            self._open[f"{record.slot}.{index}"] = one
        self._asked = []
        cancelled = [place for place, one in self._open.items() if one.future.cancelled()]
        _is(record, "its tasks cancel", set(record.parked.cancelled), set(cancelled))
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
        _is(record, "it gives", (record.output, record.error and record.error.type), expected)
        self._end(self._open.pop(place), record, record.output, record.error)

    def _end(self, one: _Asked, record: Record, value: Any, error: Failure | None) -> None:
        if one.given is not None and error is None:
            _is(record, "it gives", value, said(one.given))
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
        if record.kind is Kind.WAITING and record.node == "sleep" and not self._asked:
            self.now_ms = self._next().at_ms
            return
        _is(record, "it begins", [record.node], [one.name.rpartition(" ")[2] for one in self._asked])
        one = self._asked.pop()
        while record.kind in {Kind.BEGAN, Kind.WAITING} or not isinstance(record.next, Goto | type(None)):
            record = self._next()
        self.now_ms = record.at_ms
        came = record.resumption
        if came is None:
            self._end(one, record, record.output, record.error)
        elif came.kind == "timeout":
            self._end(one, record, None, Failure("event_timeout", "timeout", ""))
        else:
            self._end(one, record, came.payload if came.kind == "event" else None, None)
