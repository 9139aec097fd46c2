"""Operations of `ctx` on several operations at once: combinators, tasks, and waits for a condition."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Sequence
from datetime import timedelta
from typing import Any, TypeVar

from stepwell.definition.authoring import Duration
from stepwell.definition.durations import parse_duration
from stepwell.engine.records import Failure
from stepwell.errors import InvalidInput
from stepwell.limits import FORK_WIDTH, SECOND_MS
from stepwell.runtime.durable.arguments import (
    Tolerate,
    check_width,
    checked_name,
    given_name,
    is_of_module,
    tolerated_of,
)
from stepwell.runtime.durable.failures import WaitTimedOut
from stepwell.runtime.durable.gathering import First, Mapped, check_options, made_of, race, together, with_name
from stepwell.runtime.durable.held import Limit, limited_by
from stepwell.runtime.durable.misfits import telling
from stepwell.runtime.durable.misused import condition_of
from stepwell.runtime.durable.operations import Operation, stored
from stepwell.runtime.durable.running import check_own, going_on

T = TypeVar("T")


@telling
class Combining:
    """The part of `ctx` that combines operations."""

    __slots__ = ()
    run_id: str

    def step(self, function: Callable[..., Any], *args: Any, **named: Any) -> Operation[Any]:
        """Returns a step. `Context` implements it."""
        raise NotImplementedError

    def all(
        self,
        *awaited: Awaitable[Any],
        name: str = "",
        max_concurrency: int = 0,
        return_exceptions: bool = False,
        tolerate: Tolerate | None = None,
    ) -> Operation[list[Any]]:
        """Awaits all of them at once: operations or coroutines. The first failure is raised and ends the others.

        Coroutines are tasks of the function. `max_concurrency`: how many may run at once; 0: all. `return_exceptions`:
        failures are returned among the results; `tolerate`: only up to {"count": 3} or {"percent": 10} of them.
        """
        check_own(self.run_id)
        check_width(awaited, "all")
        tolerated = tolerated_of(tolerate, len(awaited), is_every=return_exceptions)
        made = together(awaited, max_concurrency=max_concurrency, tolerated=tolerated)
        return with_name(made, given_name(name))

    def first(self, *awaited: Awaitable[Any], name: str = "") -> Operation[First]:
        """Awaits the first of them to end and cancels the others. Returns a tuple with a value for each but timers.

        `name`: the operation's name where people look at the run, like that of a step; the same goes for `all`.
        """
        check_own(self.run_id)
        check_width(awaited, "first")
        if not awaited:
            raise InvalidInput("`first` of nothing never ends", code="bad_value")
        return with_name(race(awaited), given_name(name))

    def map(
        self,
        function: Callable[..., Any],
        items: Iterable[Any],
        *,
        max_concurrency: int = 0,
        name: str | None = None,
        return_exceptions: bool = False,
        tolerate: Tolerate | None = None,
        **options: Any,
    ) -> Operation[list[Any]]:
        """Runs a step or a coroutine for each item, `max_concurrency` at once (0: all). Returns results in item order.

        Steps are branches of a fork and take `options`: the cost of each does not grow with the number of items.
        Coroutines are tasks of the function.
        """
        check_own(self.run_id)
        if not isinstance(items, Iterable):
            raise InvalidInput(f"`map` takes the items of a list, not {items!r:.80}", code="bad_value")
        found = list(items)
        if len(found) > FORK_WIDTH:
            raise InvalidInput(f"{len(found)} items; at most {FORK_WIDTH}: map batches", code="fork_too_wide")
        tolerated = tolerated_of(tolerate, len(found), is_every=return_exceptions)
        own = given_name(name)
        if is_of_module(function):
            check_options(function, options)
            shown, throttle = checked_name(own or function.__name__), limited_by(options.pop("throttle", None))
            given = options if throttle is None else {**options, "throttle": Limit(throttle)}
            awaited: Sequence[Awaitable[Any]] = Mapped(
                lambda item: self.step(function, item, name=own, **given),
                [stored(item, f"item {index} of {shown}") for index, item in enumerate(found)],
            )
            if found:
                awaited[0]  # raises now for options and for a function that fit no item: the others are made later
        else:
            shown, awaited = own or "all", made_of(function, found, options)
        return together(awaited, name=shown, max_concurrency=max_concurrency, tolerated=tolerated)

    def start(self, awaited: Coroutine[Any, Any, T], *, name: str | None = None) -> asyncio.Task[T]:
        """Starts an operation or a coroutine now, as a task: awaited later, any number of times, from anywhere.

        `cancel()` ends it and what it awaits; `done()` tells whether it has ended.
        """
        going_on(self.run_id)
        if not asyncio.iscoroutine(awaited):
            raise InvalidInput(f"`start` takes an operation or a coroutine, not {awaited!r:.80}", code="bad_value")
        return asyncio.get_running_loop().create_task(awaited, name=name)

    async def as_completed(self, handles: Iterable[asyncio.Future[T]]) -> AsyncIterator[asyncio.Future[T]]:
        """Yields each handle as it ends: `async for handle in ctx.as_completed(handles)`. Cancels none."""
        ended: asyncio.Queue[asyncio.Future[T]] = asyncio.Queue()
        found = list(dict.fromkeys(handles))
        for handle in found:
            if not asyncio.isfuture(handle):
                raise InvalidInput(f"`as_completed` takes handles, not {handle!r:.80}", code="bad_value",
                                   hint="begin it with ctx.start")  # fmt: skip
            handle.add_done_callback(ended.put_nowait)
        for _ in found:
            yield await ended.get()

    async def until(self, condition: Callable[[], object], *, timeout: Duration | timedelta | None = None) -> None:
        """Waits until the condition is true. Raises WaitTimedOut, a TimeoutError, after `timeout`.

        It is checked at once, and again when the function's tasks, or an update, may have changed something.
        """
        going_on(self.run_id)
        if not callable(condition):
            raise InvalidInput(f"`until` takes a function that it calls again, not {condition!r:.80}", code="bad_value",
                               hint="await ctx.until(lambda: …)")  # fmt: skip
        loop: Any = asyncio.get_running_loop()
        seconds = None if timeout is None else _seconds(timeout)
        holds = condition_of(condition)
        if holds():
            return
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                await loop.until(holds)
        except TimeoutError as error:
            if not limit.expired():  # the condition raised it
                raise
            message = f"the condition of until did not hold within {seconds:g} s"
            raise WaitTimedOut(Failure("until_timeout", "timeout", message, "until", 1)) from error


def _seconds(given: Duration | timedelta) -> float:
    return parse_duration(given.total_seconds() if isinstance(given, timedelta) else given) / SECOND_MS
