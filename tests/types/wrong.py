"""Wrong uses of `ctx`: a type checker finds each marked line, and nothing else."""

from __future__ import annotations

from stepwell import Client, Retry, StepContext, Transient, WorkflowContext, step, workflow
from tests.types.right import Order, Receipt, charge, fraud, leg, pieces, ship, stamped, words


async def steps(ctx: WorkflowContext, order: Order) -> None:
    await ctx.step(charge, 42)  # wrong
    await ctx.step(charge)  # wrong
    await ctx.step(charge, order, 5)  # wrong
    await ctx.step(charge, order, note=3)  # wrong
    await ctx.step(charge, order, tiemout="30s")  # wrong
    await ctx.step(charge, order, timeout=[30])  # wrong
    await ctx.step(charge, 42, timeout="30s")  # wrong
    await ctx.step(ship, order, "express")  # wrong
    await ctx.step(stamped, order, "two")  # wrong
    await ctx.step("charge", order)  # wrong
    await ctx.run(leg, "three")  # wrong
    await ctx.run(leg, 3, tiemout="30s")  # wrong
    receipt: str = await ctx.step(charge, order)  # wrong
    label: int = await ctx.run(leg, 3)  # wrong
    print(receipt, label)


async def waits(ctx: WorkflowContext, order: Order) -> None:
    paid: str = await ctx.event("paid", type=Receipt)  # wrong
    await ctx.event("paid", kye=order.id)  # wrong
    posted: str = await ctx.callback(type=Receipt)  # wrong
    await ctx.child(fraud)  # wrong
    await ctx.child(fraud, "A-1")  # wrong
    await ctx.child(fraud, order, tiemout="1h")  # wrong
    is_fraud: str = await ctx.child(fraud, order)  # wrong
    other: int = await ctx.child("other", None, type=Receipt)  # wrong
    print(paid, posted, is_fraud, other)


async def together(ctx: WorkflowContext, order: Order) -> None:
    numbers: tuple[int, bool] = await ctx.all(ctx.step(ship, order), ctx.child(fraud, order))  # wrong
    await ctx.all(leg(1), leg(2), max_concurency=3)  # wrong
    await ctx.all(1, 2)  # wrong
    (await ctx.all(leg(1), leg(2), return_exceptions=True))[0].upper()  # wrong
    paid, _ = await ctx.first(ctx.event("paid", type=Receipt), leg(1), ctx.timer("2h"))
    print(paid.total)  # wrong
    await ctx.map(ship, [1, 2])  # wrong
    await ctx.map(ship, [order], max_concurency=5)  # wrong
    await ctx.map(ship, [order], tolerate={"count": "3"})  # wrong
    total: list[int] = await ctx.map(ship, [order])  # wrong
    ctx.continue_as(fraud, "A-1")  # wrong
    ctx.start(ctx.step(ship, order)).send("stop")  # wrong
    await ctx.send("paid", order.id, to="A-1")  # wrong
    print(numbers, total)


async def asks(ctx: WorkflowContext) -> None:
    await ctx.approval("manager", approvers="ana")  # wrong
    await ctx.approval("manager", approvers=[1])  # wrong


async def handles(ctx: WorkflowContext) -> None:
    @ctx.query("items")  # wrong
    def shown(item: str) -> str:
        return item

    @ctx.update("add")
    async def add(item: str) -> int:
        return len(item)

    @add.validator  # wrong
    def named(count: int) -> None:
        assert count

    print(await add(5))  # wrong
    ctx.update("clear", "items")  # wrong
    print(shown)


@step(retrys=Retry(3))  # wrong
def unlike() -> None: ...


@step
def emits(ctx: StepContext) -> None:
    ctx.emit()  # wrong


async def more(ctx: WorkflowContext, order: Order) -> Receipt:
    await ctx.until(5)  # wrong
    await ctx.until(lambda: True, timout="1h")  # wrong
    await ctx.sleep(None)  # wrong
    await ctx.approval("x", {}, need="2")  # wrong
    async with ctx.lock(object()):  # wrong
        pass
    async with ctx.limit():  # wrong
        pass
    ctx.limit("stripe", key=object())  # wrong
    ctx.limit("stripe", limit=5)  # wrong
    await ctx.transact([1])  # wrong
    at: int = ctx.now()  # wrong
    for one in ctx.as_completed([ctx.start(leg(1))]):  # wrong
        print(one)
    ctx.patched(3)  # wrong
    await ctx.child(charge, order)  # wrong
    await ctx.step(fraud, order)  # wrong
    ctx.start(5)  # wrong
    await ctx.event(5)  # wrong
    await ctx.timer()  # wrong
    Retry("3")  # wrong
    Transient("x", retry_after=[1])  # wrong
    receipt: Receipt = ctx.step(charge, order)  # wrong
    ctx.continue_as(charge, order)  # wrong
    await ctx.map(leg, ["a"])  # wrong
    ctx.state.x = 1  # wrong
    ctx.run_id = "x"  # wrong
    count: int = await ctx.step(pieces, "why")  # wrong
    text: str = await ctx.step(words, "why")  # wrong
    print(at, receipt, count, text)
    return await ctx.step(ship, order)  # wrong


def callers(client: Client, order: Order) -> None:
    client.start(fraud, 5)  # wrong
    client.start(fraud, order, "more")  # wrong
    client.start(fraud, order, ident="x")  # wrong
    client.start(charge, order)  # wrong
    paid: str = client.start(fraud, order).result()  # wrong
    print(paid)


@workflow(timeoutt="1h")  # wrong
async def misspelled(ctx: WorkflowContext) -> None: ...


@workflow(timeout=[3])  # wrong
async def lists(ctx: WorkflowContext) -> None: ...


@workflow(start="by hand")  # wrong
async def started(ctx: WorkflowContext) -> None: ...


@workflow(timeline=[{"name": "a"}])  # wrong
async def drawn(ctx: WorkflowContext) -> None: ...


@workflow  # wrong
def plain(ctx: WorkflowContext) -> None: ...


@step(tiemout="3s")  # wrong
def late() -> None: ...
