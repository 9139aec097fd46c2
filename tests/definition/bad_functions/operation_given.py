"""Gives a step the operation in place of its result"""

from stepwell import step, workflow


@step
def charge(order):
    return order


@workflow
async def flow(ctx, order):
    receipt = ctx.step(charge, order)  # bad: never_awaited, then never_awaited
    return await ctx.step(charge, receipt)
