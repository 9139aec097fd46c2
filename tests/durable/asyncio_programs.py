"""Programs over asyncio, each the same under plain asyncio and in a durable function. Each gives what it saw."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from stepwell import StepContext, StepFailed, sleep, workflow

Program = Callable[["Run"], Awaitable[Any]]
PROGRAMS: dict[str, Program] = {}


def work(ctx: StepContext, value: Any, seconds: float = 0, fails: bool = False) -> Any:
    """A step that takes so long, and then fails or gives the value."""
    if seconds and ctx.resumed is None:
        return sleep(seconds, then="again")
    if fails:
        raise ValueError(value)
    return value


class Run:
    """One run of a program: its operations, and a trace with times."""

    def __init__(self, ctx: Any) -> None:
        self.ctx, self.trace = ctx, list[Any]()
        self._began = asyncio.get_running_loop().time()

    def step(self, value: Any, seconds: float = 0, *, fails: bool = False) -> Any:
        return self.ctx.step(work, value, seconds, fails)

    def event(self, name: str) -> Any:
        return self.ctx.event(name, timeout="30d")

    def saw(self, *what: Any) -> None:
        passed = asyncio.get_running_loop().time() - self._began
        self.trace.append([round(passed, 3), *what])


async def play(ctx: Any, name: str) -> Any:
    """The outcome of a program, and its trace."""
    run = Run(ctx)
    try:
        outcome = ["gave", await PROGRAMS[name](run)]
    except asyncio.CancelledError:
        outcome = ["was cancelled"]
    except Exception as error:
        outcome = ["raised", kind_of(error)]
    return [outcome, run.trace]


def kind_of(error: BaseException) -> Any:
    """An error as both sides have it."""
    if isinstance(error, BaseExceptionGroup):
        return [kind_of(one) for one in error.exceptions]
    return error.type if isinstance(error, StepFailed) else type(error).__name__


@workflow
async def flow(ctx: Any, program: str) -> Any:
    return await play(ctx, program)


def program(function: Program) -> Program:
    PROGRAMS[function.__name__] = function
    return function


@program
async def gathers_two(run: Run) -> Any:
    return await asyncio.gather(run.step(1), run.step(2))


@program
async def gathers_in_order_of_the_arguments(run: Run) -> Any:
    async def leg(name: str, seconds: float) -> str:
        await run.step(name, seconds)
        run.saw(name)
        return name

    return await asyncio.gather(leg("slow", 9), leg("quick", 2), leg("middle", 5))


@program
async def awaits_a_task_later(run: Run) -> Any:
    task = asyncio.create_task(run.step("begun", 3))
    await asyncio.sleep(60)
    run.saw(task.done())
    return [await task, await task]


@program
async def sleeps_and_wakes_by_time(run: Run) -> Any:
    async def nap(name: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        run.saw(name)

    await asyncio.gather(nap("c", 30), nap("a", 10), nap("b", 20))
    await asyncio.sleep(0)
    run.saw("end")


@program
async def gather_fails_and_the_others_go_on(run: Run) -> Any:
    async def leg(name: str, seconds: float, fails: bool) -> str:
        value = await run.step(name, seconds, fails=fails)
        run.saw(name)
        return str(value)

    try:
        await asyncio.gather(leg("a", 2, False), leg("b", 4, True), leg("c", 6, False))
    except Exception as error:
        run.saw("caught", kind_of(error))
    await asyncio.sleep(10)


@program
async def gather_returns_exceptions(run: Run) -> Any:
    made = await asyncio.gather(run.step(1, fails=True), run.step(2, 3), return_exceptions=True)
    return [kind_of(one) if isinstance(one, BaseException) else one for one in made]


@program
async def a_task_group_waits_for_all(run: Run) -> Any:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(run.step(n, n)) for n in range(4)]
    run.saw("left")
    return [task.result() for task in tasks]


@program
async def a_task_group_cancels_the_others(run: Run) -> Any:
    async def lasting() -> None:
        try:
            await run.step("long", 100)
        finally:
            run.saw("stopped")

    async with asyncio.TaskGroup() as group:
        group.create_task(lasting())
        group.create_task(run.step("bad", 5, fails=True))
        group.create_task(lasting())


@program
async def a_task_is_cancelled(run: Run) -> Any:
    async def lasting() -> str:
        try:
            await asyncio.sleep(1_000)
        except asyncio.CancelledError:
            run.saw("cancelled")
            await run.step("tidies", 1)
            run.saw("tidied")
            raise
        return "never"

    task = asyncio.create_task(lasting())
    await run.step("before", 2)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        run.saw("seen")
    return task.cancelled()


@program
async def a_task_swallows_its_cancel(run: Run) -> Any:
    async def stubborn() -> str:
        try:
            await run.step("long", 50)
        except asyncio.CancelledError:
            return "stays"
        return "ended"

    task = asyncio.create_task(stubborn())
    await asyncio.sleep(1)
    run.saw(task.cancel("enough"))
    return await task


@program
async def a_timeout_passes(run: Run) -> Any:
    async with asyncio.timeout(10):
        return await run.step("in time", 3)


@program
async def a_timeout_strikes(run: Run) -> Any:
    try:
        async with asyncio.timeout(10):
            await run.step("late", 30)
    except TimeoutError:
        run.saw("late")
    return await run.step("after", 1)


@program
async def nested_timeouts(run: Run) -> Any:
    try:
        async with asyncio.timeout(20):
            try:
                async with asyncio.timeout(5):
                    await run.step("inner", 30)
            except TimeoutError:
                run.saw("inner")
            await run.step("outer", 30)
    except TimeoutError:
        run.saw("outer")


@program
async def the_outer_timeout_first(run: Run) -> Any:
    try:
        async with asyncio.timeout(5):
            try:
                async with asyncio.timeout(20):
                    await run.step("inner", 30)
            except TimeoutError:
                run.saw("inner")
    except TimeoutError:
        run.saw("outer")


@program
async def wait_for_strikes_and_passes(run: Run) -> Any:
    quick = await asyncio.wait_for(run.step("quick", 1), 10)
    try:
        await asyncio.wait_for(run.step("slow", 20), 10)
    except TimeoutError:
        run.saw("late")
    return quick


@program
async def waits_for_the_first(run: Run) -> Any:
    tasks = [asyncio.create_task(run.step(n, 10 - n), name=f"n{n}") for n in range(3)]
    done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    run.saw(sorted(task.get_name() for task in done), sorted(task.get_name() for task in pending))
    done, pending = await asyncio.wait(pending, timeout=1.5)
    run.saw(sorted(task.get_name() for task in done), sorted(task.get_name() for task in pending))
    return [await task for task in tasks]


@program
async def waits_for_the_first_failure(run: Run) -> Any:
    tasks = [asyncio.create_task(run.step(n, n + 1, fails=n == 1)) for n in range(3)]
    done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    run.saw(len(done), len(pending))
    for task in pending:
        task.cancel()
    return [kind_of(error) if (error := task.exception()) else task.result() for task in tasks if task in done]


@program
async def as_they_complete(run: Run) -> Any:
    for following in asyncio.as_completed([run.step(n, 10 - 3 * n) for n in range(3)]):
        run.saw(await following)


@program
async def a_race_without_cancelling_the_losers(run: Run) -> Any:
    tasks = [asyncio.create_task(run.step(name, seconds)) for name, seconds in (("hare", 7), ("tortoise", 3))]
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    run.saw([task.result() for task in done])
    return await asyncio.gather(*tasks)


@program
async def a_race_of_sleeps(run: Run) -> Any:
    tasks = [asyncio.create_task(asyncio.sleep(seconds, seconds)) for seconds in (30, 10, 20)]
    done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    await asyncio.sleep(60)
    return [[task.result() for task in done], [task.cancelled() for task in pending]]


@program
async def workers_take_from_a_queue(run: Run) -> Any:
    queue: asyncio.Queue[int] = asyncio.Queue()

    async def worker(name: str) -> None:
        while True:
            item = await queue.get()
            run.saw(name, item, await run.step(item * item, 1 + item % 3))
            queue.task_done()

    workers = [asyncio.create_task(worker(name)) for name in "xyz"]
    for item in range(8):
        queue.put_nowait(item)
    await queue.join()
    for task in workers:
        task.cancel()
    return await asyncio.gather(*workers, return_exceptions=True) and "joined"


@program
async def a_bounded_queue_holds_its_producer(run: Run) -> Any:
    queue: asyncio.Queue[int | None] = asyncio.Queue(maxsize=2)

    async def produce() -> None:
        for item in range(5):
            await queue.put(item)
            run.saw("put", item)
        await queue.put(None)

    async def consume() -> None:
        while (item := await queue.get()) is not None:
            run.saw("took", await run.step(item, 2))

    await asyncio.gather(produce(), consume())


@program
async def a_semaphore_bounds_a_pool(run: Run) -> Any:
    gate, inside = asyncio.Semaphore(2), 0

    async def leg(n: int) -> int:
        nonlocal inside
        async with gate:
            inside += 1
            run.saw("in", n, inside)
            await run.step(n, 1 + n)
            inside -= 1
        return n

    return await asyncio.gather(*[leg(n) for n in range(5)])


@program
async def a_lock_lets_one_in(run: Run) -> Any:
    lock = asyncio.Lock()

    async def leg(n: int) -> None:
        async with lock:
            run.saw("in", n)
            await run.step(n, 2)
            run.saw("out", n)

    await asyncio.gather(leg(1), leg(2), leg(3))


@program
async def an_event_wakes_those_who_wait(run: Run) -> Any:
    event = asyncio.Event()

    async def waiter(n: int) -> None:
        await event.wait()
        run.saw("woke", n, await run.step(n, n))

    tasks = [asyncio.create_task(waiter(n)) for n in (1, 2)]
    await run.step("first", 4)
    event.set()
    await asyncio.gather(*tasks)


@program
async def a_condition_is_notified(run: Run) -> Any:
    condition, items = asyncio.Condition(), list[int]()

    async def consumer() -> int:
        async with condition:
            await condition.wait_for(lambda: len(items) >= 2)
            return sum(items)

    task = asyncio.create_task(consumer())
    for n in (3, 4):
        await run.step(n, 1)
        async with condition:
            items.append(n)
            condition.notify_all()
    return await task


@program
async def tasks_that_start_tasks(run: Run) -> Any:
    async def tree(depth: int) -> int:
        if not depth:
            return int(await run.step(1, 1))
        left, right = asyncio.create_task(tree(depth - 1)), asyncio.create_task(tree(depth - 1))
        return await left + await right

    return await tree(3)


@program
async def a_dag_of_tasks_that_await_tasks(run: Run) -> Any:
    made: dict[str, asyncio.Task[Any]] = {}

    async def node(name: str, seconds: float, *needs: str) -> list[Any]:
        before = [await made[need] for need in needs]
        run.saw("begins", name)
        return [await run.step(name, seconds), before]

    made["a"] = asyncio.create_task(node("a", 3))
    made["b"] = asyncio.create_task(node("b", 1, "a"))
    made["c"] = asyncio.create_task(node("c", 5, "a"))
    made["d"] = asyncio.create_task(node("d", 1, "b", "c"))
    return await made["d"]


@program
async def shared_objects_change_for_all(run: Run) -> Any:
    found: dict[str, Any] = {}

    async def leg(name: str, seconds: float) -> None:
        found[name] = await run.step(name.upper(), seconds)
        found["order"] = [*found.get("order", []), name]

    await asyncio.gather(leg("a", 3), leg("b", 1), leg("c", 2))
    return found


@program
async def a_shield_keeps_what_it_guards(run: Run) -> Any:
    task = asyncio.create_task(run.step("kept", 20))
    try:
        async with asyncio.timeout(5):
            await asyncio.shield(task)
    except TimeoutError:
        run.saw("late")
    return await task


@program
async def what_is_left_behind_is_cancelled(run: Run) -> Any:
    async def lasting(n: int) -> None:
        try:
            await run.step(n, 1_000)
        finally:
            run.saw("left")

    for n in range(3):
        asyncio.create_task(lasting(n))  # noqa: RUF006 - that it is left behind is what is seen
    await run.step("main", 1)
    return "done"


@program
async def a_cancel_says_why(run: Run) -> Any:
    told: list[Any] = []
    for seconds in (5, None):
        task = asyncio.create_task(run.step("late", 5) if seconds is None else asyncio.sleep(seconds))
        await asyncio.sleep(1)
        task.cancel("too late")
        try:
            await task
        except asyncio.CancelledError as error:
            told.append(error.args)
    return told


@program
async def a_cancel_before_it_starts(run: Run) -> Any:
    async def never() -> None:
        run.saw("never")

    task = asyncio.create_task(never())
    task.cancel()
    await asyncio.sleep(0)
    return task.cancelled()


@program
async def steps_in_a_row_and_then_together(run: Run) -> Any:
    total = 0
    for n in range(3):
        total += await run.step(n, 1)
    total += sum(await asyncio.gather(*[run.step(n, n) for n in range(3)]))
    for n in range(3):
        total += await run.step(n)
    return total


@program
async def an_operation_is_awaited_twice(run: Run) -> Any:
    task = asyncio.ensure_future(run.step(7, 2))

    async def reader() -> Any:
        return await task

    return [await reader(), await asyncio.gather(reader(), reader())]


@program
async def a_future_is_handed_over(run: Run) -> Any:
    future = asyncio.get_running_loop().create_future()

    async def giver() -> None:
        future.set_result(await run.step("gift", 3))

    task = asyncio.create_task(giver())
    value = await future
    await task
    return value


@program
async def a_callback_by_time(run: Run) -> Any:
    loop = asyncio.get_running_loop()
    handle = loop.call_later(30, run.saw, "never")
    loop.call_later(5, run.saw, "called")
    loop.call_at(loop.time() + 10, handle.cancel)
    loop.call_soon(run.saw, "soon")
    await asyncio.sleep(60)


@program
async def an_asynchronous_generator(run: Run) -> Any:
    async def pages() -> Any:
        for n in range(3):
            yield await run.step(n, 1)

    return [page async for page in pages()]


@program
async def a_timeout_is_moved(run: Run) -> Any:
    try:
        async with asyncio.timeout(5) as limit:
            await run.step("first", 3)
            limit.reschedule(asyncio.get_running_loop().time() + 10)
            await run.step("second", 8)
            await run.step("third", 8)
    except TimeoutError:
        run.saw("late")


@program
async def a_group_within_a_group(run: Run) -> Any:
    async def inner(n: int) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(run.step(n, 2))
            group.create_task(run.step(n, 4, fails=n == 2))

    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(inner(1))
            group.create_task(inner(2))
            group.create_task(inner(3))
    except* Exception as errors:
        run.saw(kind_of(errors))


@program
async def an_event_beside_a_step(run: Run) -> Any:
    event, step = asyncio.create_task(run.event("go")), asyncio.create_task(run.step("work", 30))
    done, pending = await asyncio.wait([event, step], return_when=asyncio.FIRST_COMPLETED)
    run.saw(event in done, len(pending))
    return [await event, await step]


@program
async def an_event_that_comes_too_late(run: Run) -> Any:
    try:
        return await asyncio.wait_for(run.event("go"), 5)
    except TimeoutError:
        run.saw("late")
    return await run.event("go")
