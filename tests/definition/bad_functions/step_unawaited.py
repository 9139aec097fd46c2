"""Forgets to await a function in a step"""

from stepwell import step, workflow


async def pay(order):
    return order


@step
async def charge(order):
    pay(order)  # bad: never_awaited


@workflow
async def flow(ctx, order):
    return await ctx.step(charge, order)
