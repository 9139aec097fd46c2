"""Gives an option what it does not take"""

from stepwell import step, workflow

@step
def charge(order): ...


@workflow
async def flow(ctx, order):
    return await ctx.step(charge, order, retry=3)  # bad: bad_value, then bad_value
