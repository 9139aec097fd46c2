"""Asks whether `ctx.first` has a result"""

from stepwell import workflow


@workflow
async def flow(ctx, order):
    if await ctx.first(ctx.event("paid", key=order["id"]), ctx.timer("2h")):  # bad: bad_condition
        return "paid"
    return "unpaid"
