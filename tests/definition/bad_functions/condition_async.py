"""Gives `ctx.until` a coroutine function"""

from stepwell import workflow


@workflow
async def flow(ctx, order):
    async def is_paid():
        return order["paid"]

    await ctx.until(is_paid)  # bad: bad_condition, then bad_condition
