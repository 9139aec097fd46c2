"""Gives a nested function to `ctx.step`"""

from stepwell import step, workflow


@workflow
async def flow(ctx, order):
    def pay():
        return order

    return await ctx.step(pay)  # bad: bad_step, then bad_step
