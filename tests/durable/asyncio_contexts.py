"""Programs over callbacks, contexts, async generators and anyio, for the test of `asyncio_programs`."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
from collections.abc import AsyncIterator
from typing import Any

import anyio
import anyio.abc

from stepwell import workflow
from tests.durable.asyncio_programs import Run, kind_of, play, program

WHO: contextvars.ContextVar[str] = contextvars.ContextVar("WHO", default="nobody")


@workflow
async def flow(ctx: Any, program: str) -> Any:
    return await play(ctx, program)


# -- callbacks, contexts, futures


@program
async def callbacks_in_their_order(run: Run) -> Any:
    loop = asyncio.get_running_loop()
    task = asyncio.create_task(run.step("a", 2))
    task.add_done_callback(lambda one: run.saw("first", one.result()))
    gone = functools.partial(run.saw, "never")
    task.add_done_callback(gone)
    task.add_done_callback(lambda one: loop.call_soon(run.saw, "soon"))
    run.saw(task.remove_done_callback(gone))
    handle = loop.call_later(4, run.saw, "later")
    run.saw(round(handle.when() - loop.time(), 3), handle.cancelled())
    early = loop.call_later(1, handle.cancel)
    await task
    run.saw(handle.cancelled(), early.cancelled())
    await asyncio.sleep(0)
    task.add_done_callback(lambda one: run.saw("at once"))
    run.saw("before")
    await asyncio.sleep(9)


@program
async def callbacks_have_the_context_they_were_made_in(run: Run) -> Any:
    loop = asyncio.get_running_loop()

    async def leg(name: str, seconds: float) -> None:
        WHO.set(name)
        loop.call_later(seconds, lambda: run.saw("called", WHO.get()))
        await run.step(name, seconds + 1)
        run.saw("leg", WHO.get())

    token = WHO.set("main")
    await asyncio.gather(leg("a", 3), leg("b", 1))
    WHO.reset(token)
    own = contextvars.copy_context()
    own.run(WHO.set, "own")
    loop.call_soon(lambda: run.saw(WHO.get()), context=own)
    await asyncio.sleep(0)
    return WHO.get()


@program
async def futures_that_are_set_twice_or_cancelled(run: Run) -> Any:
    future = asyncio.get_running_loop().create_future()
    reader = asyncio.gather(future, run.step("a", 2), return_exceptions=True)
    await run.step("b", 1)
    future.set_exception(KeyError("k"))
    try:
        future.set_result(1)
    except asyncio.InvalidStateError:
        run.saw("was set")
    run.saw([kind_of(one) if isinstance(one, Exception) else one for one in await reader])
    other = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(1, other.cancel, "why")
    try:
        await other
    except asyncio.CancelledError as error:
        run.saw(error.args, other.cancelled())
    try:
        other.result()
    except asyncio.CancelledError:
        run.saw("cancelled")


@program
async def turns_of_those_who_sleep_for_no_time(run: Run) -> Any:
    async def leg(name: str) -> None:
        for n in range(3):
            run.saw(name, n)
            await asyncio.sleep(0)
        await run.step(name, 1)

    asyncio.get_running_loop().call_soon(run.saw, "soon")
    await asyncio.gather(leg("a"), leg("b"))
    return sorted(task.get_name() for task in asyncio.all_tasks() if task is not asyncio.current_task())


# -- generators and contexts


@program
async def generators_that_are_merged(run: Run) -> Any:
    async def pages(name: str, each: float, last: int) -> AsyncIterator[str]:
        try:
            for n in range(last):
                yield f"{await run.step(name, each)}{n}"
        finally:
            run.saw("closed", name)

    async def merged(*sources: AsyncIterator[str]) -> AsyncIterator[str]:
        waiting = {asyncio.ensure_future(anext(one)): one for one in sources}
        while waiting:
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                source = waiting.pop(task)
                with contextlib.suppress(StopAsyncIteration):
                    yield task.result()
                    waiting[asyncio.ensure_future(anext(source))] = source

    return [page async for page in merged(pages("a", 2, 3), pages("b", 3.1, 2))]


@program
async def contexts_on_a_stack_are_left_backwards(run: Run) -> Any:
    @contextlib.asynccontextmanager
    async def held(name: str) -> AsyncIterator[str]:
        await run.step(name, 1)
        try:
            yield name
        except LookupError:
            run.saw("passes", name)
            raise
        finally:
            await run.step("free", 2)
            run.saw("freed", name)

    try:
        async with contextlib.AsyncExitStack() as stack:
            for name in "ab":
                stack.callback(run.saw, name)
            stack.push_async_exit(lambda *error: run.step(error[0].__name__, 1.5))
            await stack.enter_async_context(held("c"))
            raise LookupError
    except LookupError:
        run.saw("out")


# -- anyio


@program
async def streams_of_anyio(run: Run) -> Any:
    send, receive = anyio.create_memory_object_stream[int](1)

    async def produce(sink: Any, first: int) -> None:
        async with sink:
            for n in range(first, first + 3):
                await sink.send(await run.step(n, 1 + first / 30))

    async def consume(name: str, source: Any) -> None:
        async with source:
            async for item in source:
                run.saw(name, await run.step(item, 2 + item / 100))

    async with anyio.create_task_group() as group:
        for first in (0, 10):
            group.start_soon(produce, send.clone(), first)
        for name in "xy":
            group.start_soon(consume, name, receive.clone())
        send.close()
        receive.close()


@program
async def scopes_of_anyio(run: Run) -> Any:
    with anyio.move_on_after(3) as scope:
        await run.step("slow", 9)
    run.saw("moved on", scope.cancelled_caught)
    try:
        with anyio.fail_after(2):
            with anyio.CancelScope(shield=True):
                run.saw(await run.step("shielded", 4))
            await run.step("never", 1)
    except TimeoutError:
        run.saw("late")

    async def served(*, task_status: anyio.abc.TaskStatus[str] = anyio.TASK_STATUS_IGNORED) -> None:
        task_status.started(await run.step("ready", 2))
        await anyio.sleep(10_000)

    async with anyio.create_task_group() as group:
        run.saw(await group.start(served))
        limiter = anyio.CapacityLimiter(1)
        async with limiter:
            run.saw(limiter.borrowed_tokens)
        group.cancel_scope.cancel()
    return "ended"
