"""Gives a lambda to `ctx.step`"""

from stepwell import step, workflow


@workflow
async def flow(ctx, order):
    return await ctx.step(lambda: order)  # bad: bad_step, then bad_step
