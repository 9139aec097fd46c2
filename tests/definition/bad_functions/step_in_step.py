"""Asks for a step inside a step"""

from stepwell import step, workflow

@step
def charge(order): ...


@step
async def ship(ctx, order):
    await ctx.step(charge, order)  # bad: nested_step


@workflow
async def flow(ctx, order):
    return await ctx.step(ship, order)
