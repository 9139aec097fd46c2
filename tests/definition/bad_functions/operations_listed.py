"""Gives `ctx.all` a list"""

from stepwell import step, workflow


@step
def charge(order):
    return order


@workflow
async def flow(ctx, order):
    charges = [ctx.step(charge, one) for one in (order, order)]
    return await ctx.all(charges)  # bad: bad_value, then bad_value
