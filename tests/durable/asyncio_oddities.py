"""Odd programs over asyncio, for the test of `asyncio_programs`: nesting, groups of errors, many tasks, big values."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
from collections.abc import AsyncIterator
from typing import Any

from stepwell import workflow
from tests.durable.asyncio_programs import Run, kind_of, play, program


@dataclasses.dataclass
class Cart:
    items: dict[str, int] = dataclasses.field(default_factory=dict)
    total: int = 0


@workflow
async def flow(ctx: Any, program: str) -> Any:
    return await play(ctx, program)


@program
async def recursion_with_a_limit_at_each_depth(run: Run) -> Any:
    async def visit(depth: int) -> int:
        try:
            async with asyncio.timeout(21 - 3 * depth):
                found: int = await run.step(depth, 2)
                return found + (await visit(depth + 1) if depth < 6 else 0)
        except TimeoutError:
            run.saw("late", depth)
            return 100

    return await visit(0)


@program
async def groups_of_errors_in_groups(run: Run) -> Any:
    async def bad(n: int, seconds: float) -> None:
        try:
            await run.step(n, seconds, fails=True)
        except ValueError as error:
            raise (KeyError if n % 2 else OSError)(n) from error

    async def inner(n: int) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(bad(n, 2))
            group.create_task(bad(n + 1, 50))

    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(inner(1))
            group.create_task(inner(2))
    except* KeyError as errors:
        run.saw("key", kind_of(errors))
    except* OSError as errors:
        run.saw("os", kind_of(errors))


@program
async def a_thousand_tasks_of_no_operation(run: Run) -> Any:
    async def leg(n: int) -> int:
        await asyncio.sleep(n % 7)
        return n

    total = sum(await asyncio.gather(*[leg(n) for n in range(1_000)]))
    queue: asyncio.Queue[int] = asyncio.Queue(10)

    async def feed() -> None:
        for n in range(2_000):
            await queue.put(n)

    feeder = asyncio.create_task(feed())
    got = [await queue.get() for _ in range(2_000)]
    await feeder
    return [total, sum(got)]


@program
async def a_shield_in_a_limit_in_a_group(run: Run) -> Any:
    inner = run.step("kept", 12)

    async def impatient(limit: float) -> str:
        try:
            return str(await asyncio.wait_for(asyncio.shield(kept), limit))
        except TimeoutError:
            return f"late {limit}"

    kept = asyncio.ensure_future(inner)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(impatient(limit)) for limit in (3, 7, 20)]
    return [task.result() for task in tasks]


@program
async def an_async_generator_feeds_two_that_race(run: Run) -> Any:
    async def pages() -> AsyncIterator[int]:
        for n in range(5):
            yield await run.step(n, 1)

    source = pages()

    async def take(name: str) -> list[int]:
        found = []
        while True:
            async with lock:
                try:
                    found.append(await anext(source))
                except StopAsyncIteration:
                    return found
            run.saw(name, found[-1])
            await asyncio.sleep(0.25)

    lock = asyncio.Lock()
    return await asyncio.gather(take("a"), take("b"))


@program
async def a_state_of_dataclasses_that_tasks_change(run: Run) -> Any:
    cart, changed = Cart(), asyncio.Condition()

    async def add(name: str, seconds: float) -> None:
        count = await run.step(len(name), seconds)
        async with changed:
            cart.items[name] = count
            cart.total += count
            changed.notify_all()

    async def until(most: int) -> dict[str, Any]:
        async with changed:
            await changed.wait_for(lambda: cart.total >= most)
            return dataclasses.asdict(cart)

    watchers = [asyncio.create_task(until(most)) for most in (3, 8)]
    await asyncio.gather(add("cup", 3), add("plate", 1), add("pot", 2))
    return [await one for one in watchers]


@program
async def big_values_in_and_out(run: Run) -> Any:
    text = "é" * 200_000
    found = await asyncio.gather(run.step(text, 1), run.step([text[:10]] * 1_000, 2))
    return [len(found[0]), found[0] == text, len(found[1])]


@program
async def a_cancel_that_is_taken_back_by_an_inner_limit(run: Run) -> Any:
    async def job() -> str:
        try:
            async with asyncio.timeout(5):
                await run.step("long", 50)
        except TimeoutError:
            task = asyncio.current_task()
            assert task is not None
            run.saw("late", task.cancelling())
        await run.step("more", 3)
        return "ended"

    task = asyncio.create_task(job())
    await asyncio.sleep(6)
    task.cancel("enough")
    made = await asyncio.gather(task, return_exceptions=True)
    return [kind_of(one) if isinstance(one, BaseException) else one for one in made]


@program
async def an_exit_stack_unwinds_in_order(run: Run) -> Any:
    async def undo(name: str, seconds: float) -> None:
        run.saw("undoes", await run.step(name, seconds))

    try:
        async with asyncio.timeout(9), contextlib.AsyncExitStack() as stack:
            for n in range(3):
                await run.step(n, 2)
                stack.push_async_callback(undo, f"undo {n}", 1)
            stack.callback(run.saw, "plain")
            await run.step("long", 60)
    except TimeoutError:
        run.saw("late")


@program
async def a_callback_chain_on_futures(run: Run) -> Any:
    loop = asyncio.get_running_loop()
    made: asyncio.Future[Any] = loop.create_future()

    def then(task: asyncio.Task[Any], n: int) -> None:
        if (error := task.exception()) is not None:
            made.set_exception(error)
        elif n:
            following = loop.create_task(run.step(task.result() * 2, 1, fails=n == 1))
            following.add_done_callback(functools.partial(then, n=n - 1))

    first = loop.create_task(run.step(1, 1))
    first.add_done_callback(functools.partial(then, n=3))
    try:
        await asyncio.wait_for(made, 60)
    except ValueError as error:
        return kind_of(error)


@program
async def a_group_in_a_task_that_is_cancelled_while_it_cancels(run: Run) -> Any:
    async def stubborn(n: int) -> None:
        try:
            await asyncio.sleep(100)
        finally:
            await run.step(n, 4)
            run.saw("tidied", n)

    async def job() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(stubborn(1))
            group.create_task(run.step("bad", 2, fails=True))

    task = asyncio.create_task(job())
    await asyncio.sleep(3)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        run.saw("cancelled", task.cancelled())
    except BaseExceptionGroup as errors:
        run.saw("group", kind_of(errors))


@program
async def a_loop_of_limits_that_mostly_pass(run: Run) -> Any:
    late = 0
    for n in range(40):
        try:
            async with asyncio.timeout(2.5):
                await (run.step(n, 1) if n % 3 else asyncio.sleep(n % 4))
        except TimeoutError:
            late += 1
    return late
