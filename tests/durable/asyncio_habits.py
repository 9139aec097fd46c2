"""Programs over the habits of those who know asyncio well, for the test of `asyncio_programs`."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from collections.abc import AsyncGenerator, AsyncIterator, Generator
from typing import Any

import anyio

from stepwell import workflow
from tests.durable.asyncio_programs import Run, kind_of, play, program

WHO: contextvars.ContextVar[str] = contextvars.ContextVar("WHO", default="nobody")


@workflow
async def flow(ctx: Any, program: str) -> Any:
    return await play(ctx, program)


# -- tasks


@program
async def tasks_kept_in_a_set_until_they_are_done(run: Run) -> Any:
    kept = set[asyncio.Task[Any]]()
    for n in range(4):
        task = asyncio.create_task(run.step(n, 4 - n, fails=n == 2), name=f"keep-{n}")
        kept.add(task)
        task.add_done_callback(kept.discard)
        task.add_done_callback(lambda one: run.saw(one.get_name(), one.exception() is None))
    while kept:
        run.saw(len(kept))
        await asyncio.sleep(1.25)


@program
async def a_task_is_asked_too_early(run: Run) -> Any:
    task = asyncio.create_task(run.step("a", 2), name="asked")
    for ask in (task.result, task.exception):
        with contextlib.suppress(asyncio.InvalidStateError):
            ask()
            run.saw("answered")
    run.saw(task.done(), task.cancelled(), task.get_name())
    task.set_name("renamed")
    await task
    run.saw(task.get_name(), task.result(), task.exception(), task.cancel())


@program
async def who_runs_and_who_is_left(run: Run) -> Any:
    here = asyncio.get_running_loop()

    async def leg(name: str) -> str:
        me = asyncio.current_task()
        assert me is not None
        me.set_name(name)
        here.call_soon(lambda: run.saw("in a callback", asyncio.current_task() is None))
        await run.step(name, 2)
        return f"{me.get_name()} {asyncio.current_task() is me} {asyncio.get_event_loop() is here}"

    main = asyncio.current_task()
    tasks = [asyncio.create_task(leg(name)) for name in ("x", "y")]
    run.saw(len(asyncio.all_tasks() - {main}), main in asyncio.all_tasks())
    await asyncio.sleep(1)
    run.saw(sorted(task.get_name() for task in asyncio.all_tasks() - {main}))
    made = await asyncio.gather(*tasks)
    run.saw(len(asyncio.all_tasks() - {main}))
    return made


@program
async def one_task_cancels_another_from_a_callback(run: Run) -> Any:
    slow = asyncio.create_task(run.step("slow", 50))
    quick = asyncio.create_task(run.step("quick", 3, fails=True))
    quick.add_done_callback(lambda one: slow.cancel("the other failed"))
    for task in (slow, quick):
        try:
            await task
        except asyncio.CancelledError as error:
            run.saw("cancelled", error.args)
        except Exception as error:
            run.saw(kind_of(error))


@program
async def a_task_that_cancels_itself(run: Run) -> Any:
    async def job() -> str:
        me = asyncio.current_task()
        assert me is not None
        me.cancel()
        run.saw("goes on")
        try:
            await run.step("never", 5)
        finally:
            run.saw("leaves")
        return "ended"

    made = await asyncio.gather(job(), run.step("other", 2), return_exceptions=True)
    return [kind_of(one) if isinstance(one, BaseException) else one for one in made]


@program
async def a_parent_is_cancelled_amid_its_gather(run: Run) -> Any:
    async def leg(n: int) -> int:
        try:
            await run.step(n, 10 * n)
        except asyncio.CancelledError:
            await run.step(f"undo {n}", n)
            run.saw("undone", n)
            raise
        return n

    async def parent() -> Any:
        try:
            return await asyncio.gather(leg(1), leg(2), leg(3), return_exceptions=True)
        finally:
            run.saw("parent leaves")

    task = asyncio.create_task(parent())
    await asyncio.sleep(15)
    task.cancel()
    done, pending = await asyncio.wait({task}, timeout=60)
    return [len(done), len(pending), task.cancelled()]


@program
async def a_shielded_task_is_awaited_again(run: Run) -> Any:
    inner = asyncio.create_task(run.step("charge", 9))
    for limit in (2, 3, 30):
        try:
            async with asyncio.timeout(limit):
                run.saw(await asyncio.shield(inner))
        except TimeoutError:
            run.saw("still", inner.done())
    return inner.result()


# -- groups and limits


@program
async def a_group_sorted_by_kind_of_error(run: Run) -> Any:
    async def raises(error: Exception, seconds: float) -> None:
        try:
            await asyncio.sleep(seconds)
        finally:
            raise error

    seen = []
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(raises(KeyError("k"), 1))
            group.create_task(raises(OSError("o"), 5))
            inner = group.create_task(run.step("bad", 9, fails=True))
    except* KeyError as errors:
        seen.append(["key", len(errors.exceptions)])
    except* OSError as errors:
        seen.append(["os", len(errors.exceptions)])
    return [seen, inner.cancelled()]


@program
async def a_group_takes_no_more_once_it_ends(run: Run) -> Any:
    def taken(when: str) -> None:
        more = asyncio.sleep(0)
        try:
            group.create_task(more)
        except RuntimeError:
            run.saw("refused", when)
            more.close()

    async def late() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            taken("as it ends")

    group = asyncio.TaskGroup()
    taken("before")
    try:
        async with group:
            group.create_task(late())
            await run.step("bad", 3, fails=True)
    except BaseExceptionGroup as errors:
        run.saw(kind_of(errors))
    taken("after")


@program
async def limits_at_a_time_that_is_moved_inwards(run: Run) -> Any:
    loop = asyncio.get_running_loop()
    async with asyncio.timeout_at(loop.time() + 100) as outer:
        try:
            async with asyncio.timeout(50) as inner:
                await run.step("one", 4)
                inner.reschedule(loop.time() + 2)
                run.saw(inner.expired(), round((inner.when() or 0) - loop.time(), 3))
                await run.step("two", 30)
        except TimeoutError:
            run.saw(inner.expired(), outer.expired())
        outer.reschedule(None)
        run.saw(await run.step("three", 200), outer.when())


@program
async def a_time_out_of_its_own_is_no_limit(run: Run) -> Any:
    async with asyncio.timeout(20) as limit:
        try:
            await run.step("a", 2)
            raise TimeoutError("its own")
        except TimeoutError as error:
            run.saw(str(error), limit.expired())
    return limit.expired()


@program
async def a_limit_around_what_cleans_up_slowly(run: Run) -> Any:
    @contextlib.asynccontextmanager
    async def leased(name: str) -> AsyncIterator[str]:
        await run.step(f"take {name}", 1)
        try:
            yield name
        finally:
            async with asyncio.timeout(4):
                await run.step(f"return {name}", 2)
            run.saw("returned", name)

    try:
        async with asyncio.timeout(10), leased("a"), leased("b"), asyncio.TaskGroup() as group:
            group.create_task(run.step("x", 90))
            group.create_task(asyncio.sleep(80))
    except TimeoutError:
        run.saw("late")


# -- what tasks share


@program
async def a_stop_flag_with_a_pause(run: Run) -> Any:
    stop = asyncio.Event()

    async def poll() -> int:
        polls = 0
        while not stop.is_set():
            polls += 1
            await run.step(polls, 0.5)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), timeout=3)
        return polls

    task = asyncio.create_task(poll())
    asyncio.get_running_loop().call_later(11.2, stop.set)
    run.saw(await task)
    stop.clear()
    return stop.is_set()


@program
async def a_pool_of_connections(run: Run) -> Any:
    pool: asyncio.LifoQueue[str] = asyncio.LifoQueue()
    for name in ("c1", "c2"):
        pool.put_nowait(name)

    @contextlib.asynccontextmanager
    async def connection() -> AsyncIterator[str]:
        name = await pool.get()
        try:
            yield name
        finally:
            pool.put_nowait(name)

    async def job(n: int) -> None:
        async with connection() as name:
            run.saw(n, name)
            await run.step(n, 1 + n, fails=n == 1)

    made = await asyncio.gather(*[job(n) for n in range(5)], return_exceptions=True)
    return [[kind_of(one) for one in made if isinstance(one, BaseException)], pool.qsize(), pool.full()]


@program
async def a_condition_with_a_predicate_and_a_limit(run: Run) -> Any:
    condition, left = asyncio.Condition(), [3]

    async def taker(name: str, wants: int) -> None:
        try:
            async with asyncio.timeout(12), condition:
                await condition.wait_for(lambda: left[0] >= wants)
                left[0] -= wants
                run.saw(name, left[0])
        except TimeoutError:
            run.saw(name, "late", condition.locked())

    async def giver() -> None:
        for n in range(3):
            await run.step(n, 3.5)
            async with condition:
                left[0] += 1
                condition.notify_all()

    await asyncio.gather(taker("a", 2), taker("b", 3), taker("c", 9), giver())
    with contextlib.suppress(RuntimeError):
        condition.notify()
        run.saw("notified without the lock")


@program
async def a_barrier_is_broken_and_mended(run: Run) -> Any:
    barrier = asyncio.Barrier(3)

    async def party(name: str, seconds: float) -> None:
        await run.step(name, seconds)
        try:
            run.saw(name, await barrier.wait())
        except asyncio.BrokenBarrierError:
            run.saw(name, "broken")

    parties = [asyncio.create_task(party(name, seconds)) for name, seconds in (("a", 1), ("b", 2))]
    await asyncio.sleep(4)
    run.saw(barrier.n_waiting, barrier.broken)
    await barrier.abort()
    await asyncio.gather(*parties)
    await barrier.reset()
    await asyncio.gather(*[party(name, seconds) for name, seconds in (("c", 3), ("d", 1), ("e", 2))])
    return [barrier.n_waiting, barrier.broken]


@program
async def a_bounded_semaphore_is_released_too_often(run: Run) -> Any:
    gate = asyncio.BoundedSemaphore(1)

    async def leg(name: str, seconds: float) -> None:
        async with asyncio.timeout(4), gate:
            run.saw(name, await run.step(name, seconds))

    made = await asyncio.gather(leg("a", 3), leg("b", 3), leg("c", 0.5), return_exceptions=True)
    try:
        gate.release()
    except ValueError:
        run.saw("too often", gate.locked())
    return [kind_of(one) if one else None for one in made]


@program
async def contexts_given_to_tasks(run: Run) -> Any:
    own = contextvars.copy_context()
    own.run(WHO.set, "own")

    async def leg(name: str) -> str:
        before = WHO.get()
        WHO.set(name)
        await run.step(name, 1)
        return f"{before} {WHO.get()}"

    loop = asyncio.get_running_loop()
    first = loop.create_task(leg("first"), context=own)
    await first
    async with asyncio.TaskGroup() as group:
        second = group.create_task(leg("second"), context=own)
        third = group.create_task(leg("third"))
    return [first.result(), second.result(), third.result(), own[WHO], WHO.get()]


# -- awaitables and iterators of their own


@program
async def objects_that_can_be_awaited(run: Run) -> Any:
    class Lazy:
        """Begins when it is first awaited, and gives the same to all."""

        def __init__(self, name: str) -> None:
            self._name = name
            self._tasks = list[asyncio.Task[Any]]()

        def __await__(self) -> Generator[Any, None, Any]:
            if not self._tasks:
                run.saw("begins", self._name)
                self._tasks.append(asyncio.ensure_future(run.step(self._name, 3)))
            return self._tasks[0].__await__()

    lazy = Lazy("l")
    await asyncio.sleep(2)
    made = [await lazy, *await asyncio.gather(lazy, lazy)]
    run.saw(await asyncio.wait_for(Lazy("w"), 5))
    for one in asyncio.as_completed([Lazy("m"), run.step("n", 1)]):
        run.saw(await one)
    return made


@program
async def an_iterator_over_a_queue_that_is_closed(run: Run) -> Any:
    class Feed:
        def __init__(self) -> None:
            self._queue: asyncio.Queue[Any] = asyncio.Queue(1)

        def __aiter__(self) -> Feed:
            return self

        async def __anext__(self) -> Any:
            item = await self._queue.get()
            if item is None:
                raise StopAsyncIteration
            return item

        async def produce(self) -> None:
            for n in range(4):
                await self._queue.put(await run.step(n, 1.5))
            await self._queue.put(None)

    feed = Feed()
    producer = asyncio.create_task(feed.produce())
    made = []
    async for item in feed:
        run.saw("took", item)
        await asyncio.sleep(2 if item == 1 else 0)
        made.append(item)
    run.saw(await anext(feed, "ended") if not producer.done() else producer.done())
    return made


@program
async def a_generator_left_by_a_break_and_closed_in_place(run: Run) -> Any:
    async def pages() -> AsyncGenerator[int, None]:
        n = 0
        try:
            while True:
                yield await run.step(n, 2)
                n += 1
        finally:
            run.saw("closes", await run.step("close", 1))

    async with contextlib.aclosing(pages()) as source:
        async for page in source:
            run.saw(page)
            if page == 2:
                break
    run.saw("after")
    try:
        async with asyncio.timeout(5), contextlib.aclosing(pages()) as source:
            return [page async for page in source]
    except TimeoutError:
        run.saw("late")


# -- timers


@program
async def timers_of_the_same_time_and_of_the_past(run: Run) -> Any:
    loop = asyncio.get_running_loop()
    loop.call_later(-5, run.saw, "past")
    loop.call_at(loop.time() + 3, run.saw, "at 3")
    gone = loop.call_later(2, run.saw, "never")
    loop.call_later(1, gone.cancel)
    loop.call_soon(run.saw, "soon")
    await asyncio.sleep(-1)
    run.saw("slept", await asyncio.sleep(0, "given"))
    await asyncio.sleep(3.5)
    return [gone.cancelled(), round(gone.when() - loop.time(), 3)]


@program
async def a_debounced_call(run: Run) -> Any:
    loop, timers, calls = asyncio.get_running_loop(), list[asyncio.TimerHandle](), list[asyncio.Task[Any]]()

    def call(n: int) -> None:
        run.saw("calls", n)
        calls.append(loop.create_task(run.step(n, 1)))

    for n, pause in enumerate((0.5, 0.5, 4, 0.5, 0)):
        while timers:
            timers.pop().cancel()
        timers.append(loop.call_later(2, call, n))
        await asyncio.sleep(pause)
    await asyncio.sleep(10)
    return [task.result() for task in calls]


# -- anyio


@program
async def a_group_of_anyio_whose_child_fails(run: Run) -> Any:
    async def lasting(name: str) -> None:
        try:
            await anyio.sleep(100)
        finally:
            with anyio.move_on_after(3, shield=True) as scope:
                await run.step(f"tidy {name}", 9 if name == "slow" else 1)
            run.saw(name, scope.cancelled_caught)

    async def failing() -> None:
        await run.step("bad", 5, fails=True)

    try:
        async with anyio.create_task_group() as group:
            group.start_soon(lasting, "quick")
            group.start_soon(lasting, "slow")
            group.start_soon(failing)
    except BaseExceptionGroup as errors:
        run.saw(kind_of(errors))


@program
async def scopes_of_anyio_within_tasks_of_asyncio(run: Run) -> Any:
    async def leg(name: str, seconds: float) -> str:
        with anyio.move_on_after(seconds) as scope:
            await run.step(name, 5)
            return f"{name} in time"
        return f"{name} {scope.cancelled_caught} {round(scope.deadline - anyio.current_time(), 3)}"

    event = anyio.Event()
    async with asyncio.TaskGroup() as group:
        legs = [group.create_task(leg(name, seconds)) for name, seconds in (("a", 2), ("b", 8))]
        waiting = group.create_task(event.wait())
        await anyio.lowlevel.checkpoint()
        await anyio.sleep(6)
        event.set()
    return [*(one.result() for one in legs), waiting.done()]
