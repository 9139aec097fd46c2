"""Programs over what asyncio cancels, closes and hands on, for the test of `asyncio_programs`."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from typing import Any

from stepwell import workflow
from tests.durable.asyncio_programs import Run, kind_of, play, program

VAR: contextvars.ContextVar[str] = contextvars.ContextVar("VAR", default="none")


class Loud(BaseException):
    """An error that is no Exception."""


@workflow
async def flow(ctx: Any, program: str) -> Any:
    return await play(ctx, program)


def told(made: list[Any]) -> list[Any]:
    """Results and errors as both sides have them."""
    return [kind_of(one) if isinstance(one, BaseException) else one for one in made]


@program
async def cancelled_again_within_finally(run: Run) -> Any:
    async def job() -> None:
        try:
            await run.step("long", 100)
        finally:
            try:
                await run.step("tidy", 10)
                run.saw("tidied")
            finally:
                run.saw("last", await run.step("last", 1))

    task = asyncio.create_task(job())
    await asyncio.sleep(2)
    task.cancel()
    await asyncio.sleep(3)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        run.saw("seen", task.cancelling())
    return task.cancelled()


@program
async def a_group_left_by_a_timeout(run: Run) -> Any:
    try:
        async with asyncio.timeout(5):
            async with asyncio.TaskGroup() as group:
                group.create_task(run.step(1, 2))
                group.create_task(run.step(2, 60))
    except TimeoutError:
        run.saw("late")
    return await run.step("then", 1)


@program
async def as_completed_with_failures(run: Run) -> Any:
    for following in asyncio.as_completed([run.step(n, 3 - n, fails=n == 1) for n in range(3)]):
        try:
            run.saw(await following)
        except Exception as error:
            run.saw(kind_of(error))


@program
async def a_semaphore_whose_waiter_is_cancelled(run: Run) -> Any:
    gate = asyncio.BoundedSemaphore(1)

    async def leg(n: int) -> int:
        async with gate:
            run.saw("in", n)
            return int(await run.step(n, 4))

    tasks = [asyncio.create_task(leg(n)) for n in range(4)]
    await asyncio.sleep(1)
    tasks[1].cancel()
    tasks[0].cancel()
    made = await asyncio.gather(*tasks, return_exceptions=True)
    try:
        gate.release()
    except ValueError:
        run.saw("bounded")
    return told(made)


@program
async def a_condition_wakes_one_by_one(run: Run) -> Any:
    condition = asyncio.Condition()

    async def waiter(n: int) -> None:
        async with condition:
            await condition.wait()
            run.saw("woke", n)
            await run.step(n, 1)
        run.saw("left", n)

    tasks = [asyncio.create_task(waiter(n)) for n in range(3)]
    await asyncio.sleep(1)
    tasks[1].cancel()
    for _ in range(2):
        async with condition:
            condition.notify(1)
        await run.step("between", 5)
    return told(await asyncio.gather(*tasks, return_exceptions=True))


@program
async def a_barrier_lets_all_go(run: Run) -> Any:
    barrier = asyncio.Barrier(3)

    async def leg(n: int) -> int:
        await run.step(n, n)
        async with barrier as place:
            run.saw("through", n, place)
        return n

    return await asyncio.gather(*[leg(n) for n in (1, 2, 3)])


@program
async def producers_blocked_when_a_consumer_fails(run: Run) -> Any:
    queue: asyncio.Queue[int] = asyncio.Queue(1)

    async def produce(name: str) -> None:
        try:
            for n in range(5):
                await queue.put(n)
                run.saw("put", name, n)
        except asyncio.CancelledError:
            run.saw("stopped", name)
            raise

    async def consume() -> None:
        for _ in range(2):
            await run.step(await queue.get(), 2)
        await run.step("bad", 1, fails=True)

    async with asyncio.TaskGroup() as group:
        group.create_task(produce("a"))
        group.create_task(consume())


@program
async def a_shield_around_a_step_in_a_cancelled_task(run: Run) -> Any:
    inner = asyncio.ensure_future(run.step("kept", 10))

    async def outer() -> Any:
        try:
            return await asyncio.shield(inner)
        except asyncio.CancelledError:
            run.saw("cancelled", inner.done())
            return await inner

    task = asyncio.create_task(outer())
    await asyncio.sleep(3)
    task.cancel()
    return await task


@program
async def context_variables_of_tasks(run: Run) -> Any:
    async def leg(name: str) -> str:
        run.saw(name, VAR.get())
        VAR.set(name)
        await run.step(name, 1)
        return VAR.get()

    VAR.set("main")
    task = asyncio.create_task(leg("a"))
    VAR.set("later")
    other = asyncio.create_task(leg("b"))
    made = await asyncio.gather(task, other, leg("c"))
    own = contextvars.copy_context()
    own.run(VAR.set, "own")
    third = asyncio.create_task(leg("d"), context=own)
    await third
    return [made, VAR.get(), own[VAR]]


@program
async def an_error_of_a_base_class_in_a_group(run: Run) -> Any:
    async def loud() -> None:
        await run.step("a", 1)
        raise Loud

    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(loud())
            group.create_task(run.step("b", 50))
    except BaseExceptionGroup as errors:
        run.saw(kind_of(errors), isinstance(errors, ExceptionGroup))
    task = asyncio.create_task(loud())
    try:
        await task
    except Loud:
        run.saw("loud")


@program
async def a_stop_iteration_in_a_task(run: Run) -> Any:
    async def bad() -> None:
        await run.step("a", 1)
        raise StopIteration

    try:
        await asyncio.create_task(bad())
    except RuntimeError as error:
        return str(error)


@program
async def a_generator_that_is_closed_early(run: Run) -> Any:
    async def pages() -> Any:
        try:
            for n in range(5):
                yield await run.step(n, 1)
        finally:
            run.saw("closing", await run.step("close", 2))

    async with contextlib.aclosing(pages()) as found:
        async for page in found:
            run.saw(page)
            if page == 1:
                break
    run.saw("out")


@program
async def a_generator_that_is_sent_to_and_thrown_at(run: Run) -> Any:
    async def echo() -> Any:
        got = None
        while True:
            try:
                got = yield await run.step(got, 1)
            except ValueError:
                got = "mended"

    made = echo()
    seen = [await anext(made), await made.asend("a"), await made.athrow(ValueError("x")), await made.asend("b")]
    await made.aclose()
    return [*seen, await anext(made, "over")]


@program
async def a_context_left_by_a_cancel(run: Run) -> Any:
    @contextlib.asynccontextmanager
    async def held() -> Any:
        await run.step("take", 1)
        try:
            yield
        finally:
            run.saw("freed", await run.step("free", 4))

    async def job() -> None:
        async with held():
            await asyncio.sleep(100)

    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(job(), 5)
    run.saw("out")


@program
async def gathers_are_cancelled_as_one(run: Run) -> Any:
    async def leg(n: int) -> None:
        try:
            await run.step(n, 20)
        except asyncio.CancelledError:
            run.saw("stopped", n)
            raise

    both = asyncio.gather(leg(1), asyncio.gather(leg(2), leg(3)), return_exceptions=True)
    await asyncio.sleep(1)
    run.saw(both.cancel())
    try:
        await both
    except asyncio.CancelledError:
        run.saw("cancelled")
    return both.cancelled()


@program
async def a_cancel_that_is_taken_back(run: Run) -> Any:
    async def job() -> Any:
        me = asyncio.current_task()
        assert me is not None
        seen = []
        for _ in range(2):
            try:
                await run.step("long", 10)
            except asyncio.CancelledError:
                seen.append([me.cancelling(), me.uncancel()])
        async with asyncio.timeout(3):
            await run.step("slow", 9)
        return seen

    task = asyncio.create_task(job())
    for _ in range(2):
        await asyncio.sleep(2)
        task.cancel()
    try:
        return await task
    except TimeoutError:
        return ["late", task.cancelling()]


@program
async def a_cancel_that_is_taken_back_before_it_is_raised(run: Run) -> Any:
    async def job() -> Any:
        me = asyncio.current_task()
        assert me is not None
        me.cancel()
        left = me.uncancel()
        try:
            return [left, await run.step("short", 1)]
        except asyncio.CancelledError:
            return [left, "cancelled"]

    return await asyncio.create_task(job())


@program
async def timeouts_that_swallow(run: Run) -> Any:
    try:
        async with asyncio.timeout(3):
            try:
                await run.step("long", 50)
            except asyncio.CancelledError:
                run.saw("swallowed", await run.step("more", 2))
            run.saw("goes on")
    except TimeoutError:
        run.saw("late")
    return await run.step("end", 1)


@program
async def a_wait_for_whose_task_does_not_give_up(run: Run) -> Any:
    async def stubborn() -> str:
        try:
            await run.step("long", 50)
        except asyncio.CancelledError:
            await run.step("tidy", 5)
            return "kept"
        return "ended"

    try:
        return await asyncio.wait_for(stubborn(), 3)
    except TimeoutError:
        run.saw("late")


@program
async def a_lock_whose_waiter_is_cancelled(run: Run) -> Any:
    lock = asyncio.Lock()

    async def leg(n: int) -> int:
        async with lock:
            run.saw("in", n)
            await run.step(n, 3)
        return n

    tasks = [asyncio.create_task(leg(n)) for n in range(4)]
    await asyncio.sleep(1)
    tasks[1].cancel()
    await asyncio.sleep(4)
    tasks[2].cancel()
    made = await asyncio.gather(*tasks, return_exceptions=True)
    return [told(made), lock.locked()]


@program
async def waits_on_cancelled_and_failed(run: Run) -> Any:
    tasks = [asyncio.create_task(run.step(n, 2 * n + 1, fails=n == 2)) for n in range(4)]
    asyncio.get_running_loop().call_later(2, tasks[1].cancel)
    done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    run.saw(len(done), len(pending), tasks[1].cancelled())
    done, pending = await asyncio.wait(tasks, timeout=1)
    run.saw(len(done), len(pending))
    done, pending = await asyncio.wait(tasks)
    run.saw(len(done), len(pending))
