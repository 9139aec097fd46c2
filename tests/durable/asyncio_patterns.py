"""Programs as people write them over asyncio, for the test of `asyncio_programs`: pipelines, groups, races."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

from stepwell import workflow
from tests.durable.asyncio_programs import Run, kind_of, play, program


@workflow
async def flow(ctx: Any, program: str) -> Any:
    return await play(ctx, program)


# -- queues


@program
async def a_pipeline_of_two_queues(run: Run) -> Any:
    raw: asyncio.Queue[int | None] = asyncio.Queue(2)
    cooked: asyncio.Queue[int | None] = asyncio.Queue(2)

    async def stage(name: str, source: asyncio.Queue[int | None], sink: asyncio.Queue[int | None], each: float) -> None:
        while (item := await source.get()) is not None:
            await sink.put(await run.step(item + 1, each + item / 10))
            run.saw(name, item)
        await source.put(None)  # for the next worker

    async def feed() -> None:
        for item in range(6):
            await raw.put(item)
        await raw.put(None)

    made: list[int] = []
    end: asyncio.Queue[int | None] = asyncio.Queue()
    async with asyncio.TaskGroup() as group:
        group.create_task(feed())
        first = [group.create_task(stage(f"a{n}", raw, cooked, 2 + n / 4)) for n in range(2)]
        second = [group.create_task(stage(f"b{n}", cooked, end, 1 + n / 8)) for n in range(3)]
        await asyncio.gather(*first)
        await cooked.put(None)
        await asyncio.gather(*second)
    while not end.empty():
        made.append(end.get_nowait() or 0)
    return made


@program
async def a_queue_of_priorities(run: Run) -> Any:
    queue: asyncio.PriorityQueue[tuple[int, str]] = asyncio.PriorityQueue()

    async def worker() -> None:
        while True:
            rank, name = await queue.get()
            run.saw(rank, await run.step(name, 2))
            queue.task_done()
            if name == "b":
                queue.put_nowait((0, "urgent"))

    task = asyncio.create_task(worker())
    for rank, name in ((5, "e"), (2, "b"), (3, "c")):
        queue.put_nowait((rank, name))
    await queue.join()
    task.cancel()
    try:
        queue.task_done()
    except ValueError as error:
        run.saw(str(error))


@program
async def a_queue_that_is_asked_with_a_time_limit(run: Run) -> Any:
    queue: asyncio.LifoQueue[int] = asyncio.LifoQueue()

    async def produce() -> None:
        for n in range(3):
            await run.step(n, 4)
            queue.put_nowait(n)

    task = asyncio.create_task(produce())
    while not task.done() or not queue.empty():
        try:
            run.saw(await asyncio.wait_for(queue.get(), 1.5))
        except TimeoutError:
            run.saw("nothing")


@program
async def a_worker_dies_and_its_item_is_taken_again(run: Run) -> Any:
    queue: asyncio.Queue[tuple[int, int]] = asyncio.Queue()
    done: list[int] = []

    async def worker() -> None:
        while True:
            item, tries = await queue.get()
            try:
                done.append(await run.step(item, 1 + item / 10, fails=item == 2 and tries < 2))
            except Exception:
                await queue.put((item, tries + 1))
                raise
            finally:
                queue.task_done()

    async def supervise(name: str) -> None:
        while True:
            try:
                await worker()
            except Exception as error:
                run.saw(name, kind_of(error))
                await asyncio.sleep(0.25)

    for item in range(5):
        queue.put_nowait((item, 0))
    tasks = [asyncio.create_task(supervise(name)) for name in "ab"]
    await queue.join()
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    return done


@program
async def actors_that_answer_by_futures(run: Run) -> Any:
    box: asyncio.Queue[tuple[str, asyncio.Future[Any]]] = asyncio.Queue()

    async def actor() -> None:
        held = 0
        while True:
            asked, answer = await box.get()
            if asked == "stop":
                answer.set_result(held)
                return
            try:
                held += await run.step(1, 2, fails=asked == "bad")
                answer.set_result(held)
            except Exception as error:
                answer.set_exception(error)

    def ask(what: str) -> asyncio.Future[Any]:
        answer = asyncio.get_running_loop().create_future()
        box.put_nowait((what, answer))
        return answer

    task = asyncio.create_task(actor())
    made = await asyncio.gather(*[ask(what) for what in ("add", "bad", "add")], return_exceptions=True)
    run.saw([kind_of(one) if isinstance(one, Exception) else one for one in made])
    return [await ask("stop"), await task]


# -- groups and time limits


@program
async def groups_within_groups_when_time_is_up(run: Run) -> Any:
    tidied: list[str] = []

    async def leaf(name: str, seconds: float) -> None:
        try:
            run.saw(await run.step(name, seconds))
        except asyncio.CancelledError:
            await run.step("tidy", 1)
            tidied.append(name)
            raise

    async def branch(name: str) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(leaf(f"{name}1", 2))
            group.create_task(leaf(f"{name}2", 40))

    try:
        async with asyncio.timeout(10) as limit:
            async with asyncio.TaskGroup() as group:
                group.create_task(branch("a"))
                await run.step("between", 0.5)
                group.create_task(branch("b"))
    except TimeoutError:
        run.saw("late", limit.expired(), sorted(tidied))  # a group cancels its tasks in any order


@program
async def a_group_fails_while_another_tidies_up(run: Run) -> Any:
    async def fails_late() -> None:
        try:
            await run.step("long", 50)
        except asyncio.CancelledError:
            await run.step("tidy", 3, fails=True)

    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(fails_late())
            group.create_task(run.step("bad", 2, fails=True))
            group.create_task(fails_late())
    except* ValueError as errors:
        run.saw(len(errors.exceptions))
    except* Exception as errors:
        run.saw("others", kind_of(errors))


@program
async def a_group_is_left_by_an_error_of_its_body(run: Run) -> Any:
    async def lasting(n: int) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await run.step(n, 90)
        run.saw("stopped")

    try:
        async with asyncio.TaskGroup() as group:
            for n in range(2):
                group.create_task(lasting(n))
            await run.step("body", 3)
            raise LookupError
    except* LookupError as errors:
        run.saw(kind_of(errors))
    late = asyncio.sleep(1)
    try:
        group.create_task(late)
    except RuntimeError:
        run.saw("is over")
    late.close()


@program
async def limits_of_no_time_and_of_any(run: Run) -> Any:
    for seconds in (0, -1, None):
        try:
            async with asyncio.timeout(seconds) as limit:
                run.saw(seconds, await run.step("a", 2), limit.when() is None)
        except TimeoutError:
            run.saw("late", seconds, limit.expired())
    for seconds in (0, None):
        try:
            run.saw(await asyncio.wait_for(asyncio.sleep(2, "b"), seconds))
        except TimeoutError:
            run.saw("late", seconds)
    try:
        async with asyncio.timeout_at(asyncio.get_running_loop().time() + 3):
            await asyncio.sleep(100)
    except TimeoutError:
        run.saw("late at")


@program
async def waits_for_nothing_and_for_no_time(run: Run) -> Any:
    try:
        await asyncio.wait([])
    except ValueError as error:
        run.saw(type(error).__name__)
    task = asyncio.create_task(run.step("a", 3))
    done, pending = await asyncio.wait({task}, timeout=0)
    run.saw(len(done), len(pending))
    run.saw(await asyncio.gather())
    done, pending = await asyncio.wait({task, task}, timeout=5)
    return [len(done), len(pending), task.result()]


@program
async def as_completed_with_a_time_limit(run: Run) -> Any:
    tasks = [asyncio.create_task(run.step(n, 3 * n + 1, fails=n == 1)) for n in range(4)]
    try:
        for following in asyncio.as_completed(tasks, timeout=8.5):
            try:
                run.saw(await following)
            except ValueError as error:
                run.saw(kind_of(error))
    except TimeoutError:
        run.saw("late", [task.done() for task in tasks])
    return await tasks[3]


# -- races and retries


@program
async def a_hedged_request(run: Run) -> Any:
    async def hedged(first: float, second: float, after: float) -> Any:
        tasks = [asyncio.create_task(run.step("first", first))]
        done, _ = await asyncio.wait(tasks, timeout=after)
        if not done:
            tasks.append(asyncio.create_task(run.step("second", second)))
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        return [task.result() for task in done]

    return [await hedged(1, 9, 2), await hedged(20, 3, 2), await hedged(4, 9, 2)]


@program
async def a_step_is_cancelled_and_asked_again(run: Run) -> Any:
    for attempt in range(3):
        task = asyncio.create_task(run.step("slow", 10 - 4 * attempt), name=f"try {attempt}")
        await asyncio.sleep(3)
        if task.done():
            return task.result()
        run.saw(task.cancel(), task.get_name())
        with contextlib.suppress(asyncio.CancelledError):
            await task
        run.saw(task.cancelled())
    return await run.step("gave up", 1)


@program
async def retries_with_a_growing_pause(run: Run) -> Any:
    async def again(make: Callable[[int], Awaitable[Any]], most: int) -> Any:
        for number in range(most):
            try:
                return await make(number)
            except Exception as error:
                run.saw(number, kind_of(error))
                await asyncio.sleep(2**number)
        raise TimeoutError

    made = await asyncio.gather(
        again(lambda n: run.step("a", 1, fails=n < 2), 4),
        again(lambda n: run.step("b", 1.5, fails=True), 2),
        return_exceptions=True,
    )
    return [kind_of(one) if isinstance(one, Exception) else one for one in made]


@program
async def a_ticker_beside_a_long_step(run: Run) -> Any:
    async def tick() -> None:
        beats = 0
        try:
            while True:
                await asyncio.sleep(3)
                beats += 1
        finally:
            run.saw("beats", beats)

    ticker = asyncio.create_task(tick())
    try:
        return await run.step("long", 20)
    finally:
        ticker.cancel()
        await asyncio.wait([ticker])


@program
async def calls_at_a_rate(run: Run) -> Any:
    loop, lock, following = asyncio.get_running_loop(), asyncio.Lock(), 0.0

    async def call(n: int) -> Any:
        nonlocal following
        async with lock:
            pause = following - loop.time()
            following = max(following, loop.time()) + 2
        if pause > 0:
            await asyncio.sleep(pause)
        run.saw("calls", n)
        return await run.step(n, 5 - n / 2)

    return await asyncio.gather(*[call(n) for n in range(4)])


@program
async def one_call_for_all_who_ask(run: Run) -> Any:
    under_way: dict[str, asyncio.Task[Any]] = {}

    async def get(key: str) -> Any:
        if key not in under_way:
            run.saw("asks", key)
            under_way[key] = asyncio.create_task(run.step(key, 3, fails=key == "bad"))
        return await asyncio.shield(under_way[key])

    async def impatient() -> Any:
        return await asyncio.wait_for(get("a"), 1)

    made = await asyncio.gather(get("a"), impatient(), get("bad"), get("a"), get("bad"), return_exceptions=True)
    return [kind_of(one) if isinstance(one, Exception) else one for one in made]
