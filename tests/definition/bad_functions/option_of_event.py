"""Misspells an option of an event"""

from stepwell import workflow


@workflow
async def flow(ctx, order):
    return await ctx.event("paid", keys=order["id"])  # bad: bad_arguments, then bad_value
