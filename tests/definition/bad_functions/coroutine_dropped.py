"""Forgets to await a function of its own"""

from __future__ import annotations

from stepwell import step, workflow


@step
def charge(order: dict) -> str:
    return str(order["id"])


async def pay(ctx, order: dict) -> None:
    await ctx.step(charge, order)


@workflow
async def flow(ctx, order):
    pay(ctx, order)  # bad: never_awaited
