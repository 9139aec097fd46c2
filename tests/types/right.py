"""Right uses of `ctx`: a type checker finds nothing, and knows these types."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Generator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import assert_type
from uuid import UUID

from stepwell import AsyncClient, Client, Retry, StepContext, Transient, WorkflowContext, step, workflow


@dataclass
class Order:
    id: str


@dataclass
class Receipt:
    total: int


@step(retry=Retry(3, on=("timeout", OSError)), timeout="30s")
def charge(order: Order, currency: str = "EUR", *, note: str = "") -> Receipt:
    return Receipt(1)


@step
async def ship(order: Order) -> str:
    return order.id


@step
def stamped(ctx: StepContext, order: Order, copies: int) -> list[str]:
    return [ctx.run_id] * copies


@step
def printed(order: Order, ctx: StepContext) -> bytes:
    return ctx.run_id.encode()


@workflow
async def fraud(ctx: WorkflowContext, order: Order, limit: int = 3) -> bool:
    return True


async def leg(n: int) -> str:
    return str(n)


@workflow(name="kept", version=2, retention="30d", lock="{{ input.id }}", triggers=[{"event": "paid"}], start="manual")
async def kept(ctx: WorkflowContext, order: Order) -> str:
    return order.id


@workflow(timeout="1d", cleanup=60, concurrency={"limit": 3, "key": "{{ input.id }}"}, max_cost=0.5, internal=True)
async def steps(ctx: WorkflowContext, order: Order) -> Receipt:
    assert_type(await ctx.child(kept, order), str)
    assert_type(await ctx.step(charge, order), Receipt)
    assert_type(await ctx.step(charge, order, "USD", note="a gift"), Receipt)
    assert_type(await ctx.step(charge, order, "USD", timeout="30s", retry=Retry(2)), Receipt)
    assert_type(await ctx.step(ship, order), str)
    assert_type(await ctx.step(ship, order, name="send", pool="big"), str)
    assert_type(await ctx.step(stamped, order, copies=2), list[str])
    assert_type(await ctx.step(stamped, order, 2, at_most_once=True), list[str])
    assert_type(await ctx.step(printed, order), bytes)
    assert_type(await ctx.step(printed, order, timeout="1m"), bytes)
    assert_type(await ctx.map(printed, [order]), list[bytes])
    assert_type(await ctx.run(lambda: order.id), str)
    assert_type(await ctx.run(leg, 3, timeout=5, name="leg"), str)
    assert_type(await ctx.run(order.id.split, sep=","), list[str])
    assert_type(await ctx.sleep("1h"), None)
    return await ctx.step(charge, order)


@workflow
async def waits(ctx: WorkflowContext, order: Order) -> None:
    assert_type(await ctx.event("paid", key=order.id, type=Receipt), Receipt)
    assert_type(await ctx.event("lines", type=list[int]), list[int])
    await ctx.event("anything", timeout="2h")
    await ctx.event("perhaps", type=int | None)
    callback = ctx.callback(type=Receipt, timeout="1h")
    assert_type(callback.url, str)
    assert_type(await callback, Receipt)
    assert_type(await ctx.child(fraud, order), bool)
    assert_type(await ctx.child(fraud, order, limit=4), bool)
    assert_type(await ctx.child(fraud, order, 4, timeout="1h"), bool)
    assert_type(await ctx.child(fraud, order, 4, detached=True), str)
    assert_type(await ctx.child("other", {"order": order.id}, type=Receipt), Receipt)
    await ctx.child("other", {"order": order.id})


@workflow
async def together(ctx: WorkflowContext, order: Order) -> bool:
    assert_type(await ctx.all(ctx.step(ship, order), ctx.child(fraud, order)), tuple[str, bool])
    assert_type(await ctx.all(*[leg(n) for n in range(9)], max_concurrency=3), list[str])
    assert_type(await ctx.all(leg(1), leg(2), return_exceptions=True), list[str | BaseException])
    assert_type(await ctx.all(leg(1), leg(2), tolerate={"count": 1}), list[str | BaseException])
    paid, late = await ctx.first(ctx.event("paid", type=Receipt), leg(1), ctx.timer("2h"))
    assert_type(paid, Receipt | None)
    assert_type(late, str | None)
    (label,) = await ctx.first(ctx.step(ship, order), ctx.timer("2h"))
    assert_type(label, str | None)
    assert_type((await ctx.first(leg(1), leg(2))).winner, int)
    assert_type(await ctx.map(ship, [order], max_concurrency=5, retry=Retry(2)), list[str])
    assert_type(await ctx.map(leg, range(5)), list[str])
    assert_type(await ctx.map(ship, [order], return_exceptions=True, tolerate={"count": 3}), list[str | BaseException])
    assert_type(await ctx.map(ship, [order], tolerate={"count": 3}), list[str | BaseException])
    assert_type(await ctx.map(ship, [order], tolerate=None), list[str])
    handle = ctx.start(ctx.step(ship, order))
    assert_type(await handle, str)
    child = ctx.start(ctx.child(fraud, order))
    assert_type(await child.send("stop", {"why": "late"}), str)
    assert_type(await child, bool)
    assert_type(await ctx.send("paid", order.id, key=order.id), str)
    return await together_again(ctx, order)


async def together_again(ctx: WorkflowContext, order: Order) -> bool:
    if order.id:
        return ctx.continue_as(fraud, order, 4)
    return ctx.continue_as(fraud, order)


async def handles(ctx: WorkflowContext) -> None:
    items: list[str] = []

    @ctx.query("items")
    def shown() -> list[str]:
        return items

    @ctx.update("add")
    async def add(item: str, times: int = 1) -> int:
        items.extend([item] * times)
        return len(items)

    @add.validator
    def named(item: str, times: int = 1) -> None:
        assert item

    assert_type(await add("cup", times=2), int)
    assert_type(shown(), list[str])
    ctx.query("count", lambda: len(items))
    ctx.update("clear", items.clear)


@step
def words(ctx: StepContext, question: str) -> Generator[str, None, int]:
    ctx.emit({"word": question})
    yield "a"
    return 3


@step
async def pieces(question: str) -> AsyncIterator[str]:
    yield question


@workflow
async def more(ctx: WorkflowContext, order: Order) -> None:
    await ctx.until(lambda: order.id, timeout=timedelta(hours=1))
    await ctx.sleep(timedelta(days=1))
    decision = await ctx.approval("manager", {"id": order.id}, approvers=["ana"], need=1, timeout="2d")
    print(decision["by"])
    async with ctx.lock("room", order.id):
        pass
    async with ctx.limit("stripe", key=order.id):
        pass
    await ctx.step(charge, order, throttle=ctx.limit("stripe"))
    both = await asyncio.gather(ctx.step(charge, order), ctx.child(fraud, order))
    assert_type(both, tuple[Receipt, bool])
    async with asyncio.TaskGroup() as group:
        task = group.create_task(ctx.step(charge, order))
    assert_type(task.result(), Receipt)
    assert_type(await asyncio.wait_for(ctx.event("paid", type=Receipt), 60), Receipt)
    child = asyncio.create_task(ctx.child(fraud, order))
    assert_type(await child, bool)
    async for handle in ctx.as_completed([ctx.start(ctx.step(ship, order)), ctx.start(leg(1))]):
        assert_type(await handle, str)
    assert_type(await ctx.step(words, "why"), int)
    assert_type(await ctx.step(words, "why", timeout="1m"), int)
    assert_type(await ctx.step(pieces, "why"), None)
    first = await ctx.first(ctx.start(leg(1)), ctx.start(ctx.step(ship, order)))
    assert_type(first.winner, int)
    assert_type(ctx.now(), datetime)
    assert_type(ctx.uuid(), UUID)
    assert_type(ctx.random(), float)
    ctx.state["n"] = 3
    ctx.log.info("x %s", order)
    assert_type(ctx.patched("x"), bool)
    steps = [ctx.step(ship, order) for _ in range(3)]
    assert_type(await ctx.all(*steps), list[str])
    raise Transient("x", retry_after=3)


async def callers(client: Client, later: AsyncClient, order: Order) -> None:
    assert_type(client.start(steps, order, id="order-17").result(), Receipt)
    assert_type(client.handle("order-17", steps).result(), Receipt)
    assert_type(await (await later.start(fraud, order)).result(), bool)
