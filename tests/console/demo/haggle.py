"""A durable function with what a console has to show: a map, a query, an update, state, and a wait for both."""

from __future__ import annotations

from typing import Any

from stepwell import WorkflowContext, workflow


def ask(shop: str) -> float:
    return {"north": 90.0, "south": 84.5, "harbour": 97.0}[shop]


def buy(price: float) -> str:
    return f"bought for {price:.2f}"


@workflow
async def haggle(ctx: WorkflowContext, item: str, limit: float = 80.0) -> str:
    offers: list[float] = []

    @ctx.query("offers")
    def shown() -> dict[str, Any]:
        return {"item": item, "limit": limit, "offers": offers}

    @ctx.update("offer")
    def offer(price: float) -> int:
        offers.append(price)
        ctx.state["best"] = min(offers)
        return len(offers)

    for price in await ctx.map(ask, ["north", "south", "harbour"]):
        offers.append(price)
    ctx.state["best"] = min(offers)
    await ctx.until(lambda: min(offers) <= limit, timeout="2d")
    return await ctx.step(buy, min(offers))
