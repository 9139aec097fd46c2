"""Gives `ctx` to a step"""

from stepwell import step, workflow


@step
def charge(ctx, order):
    return order


@workflow
async def flow(ctx, order):
    return await ctx.step(charge, ctx, order)  # bad: bad_arguments, then step_input
