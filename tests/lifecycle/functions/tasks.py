"""Durable functions with tasks, some of whose operations fail until they are mended."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from stepwell import StepFailed, Update, WorkflowContext, step, workflow

CALLED: list[str] = []  # by closures
NEW = ""  # what a change of the code adds


@step
def fetch(item: str) -> str:
    return f"got {item}"


@step
def store(item: str) -> str:
    return f"stored {item}"


@step
def tell(item: str) -> str:
    return f"told {item}"


async def both(ctx: WorkflowContext, item: str) -> str:
    """An operation, and one that follows it."""
    return await ctx.step(store, await ctx.step(fetch, item))


@workflow
async def gathered(ctx: WorkflowContext, items: list[str]) -> Any:
    """The first failure fails it at once."""
    begun = await ctx.step(tell, "begun")
    return [begun, await asyncio.gather(*(both(ctx, item) for item in items), ctx.sleep("1h"))]


@workflow
async def grouped(ctx: WorkflowContext, items: list[str]) -> Any:
    """The first failure cancels the others."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(both(ctx, item)) for item in items]
    return [task.result() for task in tasks]


@workflow
async def collected(ctx: WorkflowContext, items: list[str]) -> Any:
    """All come to their end, and then it fails with an error of its own."""
    found = await asyncio.gather(*(both(ctx, item) for item in items), return_exceptions=True)
    if broken := [one for one in found if isinstance(one, BaseException)]:
        raise RuntimeError(f"{len(broken)} failed")
    return found


@workflow
async def pooled(ctx: WorkflowContext, items: list[str]) -> Any:
    """Two workers take from one queue: what fails lets the next one begin."""
    places, found = asyncio.Semaphore(2), dict[str, str]()

    async def one(item: str) -> None:
        async with places:
            found[item] = await ctx.step(fetch, item)

    ended = await asyncio.gather(*(one(item) for item in items), return_exceptions=True)
    for error in ended:
        if error is not None:
            raise error
    return found


@workflow
async def one_by_one(ctx: WorkflowContext, items: list[str]) -> Any:
    """No two at once: each operation stands in the log of the function itself."""
    place = asyncio.Lock()

    async def one(item: str) -> str:
        async with place:
            return await both(ctx, item)

    ended = await asyncio.gather(*(one(item) for item in items), return_exceptions=True)
    for error in ended:
        if isinstance(error, BaseException):
            raise error
    return ended


@workflow
async def sorry(ctx: WorkflowContext, items: list[str]) -> Any:
    """A task that fails says so, in a step of its own, and the function in another."""

    async def one(item: str) -> str:
        try:
            return await both(ctx, item)
        except StepFailed:
            await ctx.step(tell, f"no {item}")
            raise

    ended = await asyncio.gather(*(one(item) for item in items), return_exceptions=True)
    await ctx.step(tell, "all")
    for error in ended:
        if isinstance(error, BaseException):
            raise error
    return ended


@workflow
async def tidied(ctx: WorkflowContext, items: list[str]) -> Any:
    """What is cancelled gives back what it had taken."""

    async def one(item: str) -> str:
        try:
            return await both(ctx, item)
        finally:
            await ctx.step(tell, f"back {item}")

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(item)) for item in items]
    return [task.result() for task in tasks]


@workflow
async def closures(ctx: WorkflowContext, items: list[str]) -> Any:
    """Functions of the function's own, and what they were called for."""

    async def one(item: str) -> str:
        fetched = await ctx.step(fetch, item)

        async def keep() -> str:
            CALLED.append(fetched)
            return f"kept {fetched}"

        stored = await ctx.run(keep)
        return f"{stored} {await ctx.step(tell, item)}"

    ended = await asyncio.gather(*(one(item) for item in items), return_exceptions=True)
    for error in ended:
        if isinstance(error, BaseException):
            raise error
    return ended


@workflow
async def counted(ctx: WorkflowContext, items: list[str]) -> Any:
    """Writes to a table of the user's, in a transaction with the record."""

    async def one(item: str) -> None:
        fetched = await ctx.step(fetch, item)
        await ctx.transact([Update("sales", {"item": item}, add={"count": 1})], name="count")
        await ctx.step(tell, fetched)

    ended = await asyncio.gather(*(one(item) for item in items), return_exceptions=True)
    for error in ended:
        if error is not None:
            raise error
    return ended


@workflow
async def changing(ctx: WorkflowContext, items: list[str]) -> Any:
    """Its code was changed before the redrive: it stores another thing."""

    async def one(item: str) -> str:
        fetched = await ctx.step(fetch, item)
        stored = await ctx.step(store, f"{fetched}{NEW}")
        return await ctx.step(tell, item) + stored

    ended = await asyncio.gather(*(one(item) for item in items), return_exceptions=True)
    for error in ended:
        if isinstance(error, BaseException):
            raise error
    return ended


@workflow
async def forked(ctx: WorkflowContext, items: list[str]) -> Any:
    """A fork beside an operation."""
    return await asyncio.gather(ctx.all(*(ctx.step(fetch, item) for item in items)), ctx.step(tell, "all"))


@workflow
async def waiting(ctx: WorkflowContext, items: list[str]) -> Any:
    """Waits beside operations, and a time of asyncio's."""
    answers = [asyncio.create_task(ctx.event(item, timeout="1d")) for item in items]
    await asyncio.sleep(60)
    told = await ctx.step(tell, "all")
    return [told, *[await one for one in answers]]


@workflow
async def mapped(ctx: WorkflowContext, items: list[str]) -> Any:
    """What failed stands among the results, and then it fails with an error of its own."""
    found = await ctx.map(fetch, items, return_exceptions=True, tolerate={"count": 2})
    if broken := [one for one in found if isinstance(one, BaseException)]:
        raise RuntimeError(f"{len(broken)} failed")
    return found


@workflow
async def tolerant(ctx: WorkflowContext, items: list[str]) -> Any:
    """It does something about what failed, and raises that."""
    found = await ctx.all(*(ctx.step(fetch, item) for item in items), return_exceptions=True)
    for one in found:
        if isinstance(one, BaseException):
            await ctx.step(tell, "some")
            raise one
    return found


@workflow
async def regretted(ctx: WorkflowContext, items: list[str]) -> Any:
    """A group fails, and the function says so before it fails with the group's error."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(both(ctx, item)) for item in items]
    except ExceptionGroup:
        await ctx.step(tell, "none")
        raise
    return [task.result() for task in tasks]


@workflow
async def noted(ctx: WorkflowContext, items: list[str]) -> Any:
    """What could have failed has not; what follows it fails."""
    found = await ctx.map(fetch, items, return_exceptions=True)
    return [*found, await ctx.step(tell, "some")]


def whole(found: Iterable[Any]) -> list[Any]:
    """What was found, unless some of it failed."""
    found = [*found]
    if broken := [one for one in found if isinstance(one, BaseException)]:
        raise RuntimeError(f"{len(broken)} failed")
    return found


@workflow
async def beside(ctx: WorkflowContext, items: list[str]) -> Any:
    """What failed stands among the results, of what was awaited beside another operation."""
    found, _ = await asyncio.gather(ctx.map(fetch, items, tolerate={"count": 2}), ctx.step(tell, "all"))
    return whole(found)


@workflow
async def awaited_later(ctx: WorkflowContext, items: list[str]) -> Any:
    """It ends while the function does other things."""
    task = asyncio.create_task(ctx.map(fetch, items, tolerate={"count": 2}))
    await ctx.step(tell, "one")
    await ctx.sleep("1m")
    return whole(await task)


@workflow
async def both_broken(ctx: WorkflowContext, items: list[str]) -> Any:
    """A fork that tolerates failures, and a step that fails beside it."""
    steps = ctx.all(*(ctx.step(fetch, item) for item in items), return_exceptions=True)
    found, told = await asyncio.gather(steps, ctx.step(tell, "all"), return_exceptions=True)
    return whole([found, told] if isinstance(found, BaseException) else [*found, told])


@workflow
async def told_of(ctx: WorkflowContext, items: list[str]) -> Any:
    """It says so, and raises what was returned."""
    found, _ = await asyncio.gather(ctx.map(fetch, items, tolerate={"count": 2}), ctx.step(tell, "all"))
    for one in found:
        if isinstance(one, BaseException):
            await ctx.step(tell, "some")
            raise one
    return found


@workflow
async def made_do(ctx: WorkflowContext, items: list[str]) -> Any:
    """One task goes on with what it got, another fails."""

    async def some() -> str:
        found = await ctx.map(fetch, items, tolerate={"count": 2})
        got = [one for one in found if not isinstance(one, BaseException)]
        return await ctx.step(store, f"{len(got)} of {len(found)}")

    return whole(await asyncio.gather(some(), ctx.step(tell, "all"), return_exceptions=True))


@workflow
async def adjusted(ctx: WorkflowContext, items: list[str]) -> Any:
    """A function that takes updates: its operations are those of tasks."""

    @ctx.update("adjust")
    async def adjust(item: str) -> None:
        items.append(item)

    return whole(await ctx.map(fetch, items, tolerate={"count": 2}))


@workflow
async def within(ctx: WorkflowContext, items: list[str]) -> Any:
    """A fork that tolerates failures, in a fork of which no branch may fail."""
    found, _ = await ctx.all(ctx.map(fetch, items, tolerate={"count": 2}), ctx.step(store, "all"))
    return whole(found)


@workflow
async def within_raised(ctx: WorkflowContext, items: list[str]) -> Any:
    """It says so, and raises what the inner fork returned."""
    found, _ = await ctx.all(ctx.map(fetch, items, return_exceptions=True), ctx.step(store, "all"))
    for one in found:
        if isinstance(one, BaseException):
            await ctx.step(tell, "some")
            raise one
    return found


@workflow
async def within_within(ctx: WorkflowContext, items: list[str]) -> Any:
    """Three forks, of which the innermost tolerates failures."""
    inner = ctx.all(ctx.map(fetch, items, return_exceptions=True), ctx.step(store, "all"))
    (found, _), _ = await ctx.all(inner, ctx.step(store, "more"))
    return whole(found)


@workflow
async def within_broken(ctx: WorkflowContext, items: list[str]) -> Any:
    """A fork that tolerates failures, and beside it a branch that fails the outer fork once it has ended."""
    inner = ctx.map(fetch, items, return_exceptions=True)
    found, told = await ctx.all(inner, ctx.step(store, "all"), max_concurrency=1)
    return [*whole(found), told]


@workflow
async def within_used(ctx: WorkflowContext, items: list[str]) -> Any:
    """It goes on with what it got, and fails later."""
    found, _ = await ctx.all(ctx.map(fetch, items, return_exceptions=True), ctx.step(store, "all"))
    got = [one for one in found if not isinstance(one, BaseException)]
    return [await ctx.step(store, f"{len(got)} of {len(found)}"), await ctx.step(tell, "all")]


@workflow
async def few_at_once(ctx: WorkflowContext, items: list[str], at_once: int) -> Any:
    """An item begins once another has ended, however that ended."""
    return whole(await ctx.map(lambda item: both(ctx, item), items, max_concurrency=at_once, return_exceptions=True))
