"""Gives the key of an event by position"""

from stepwell import workflow


@workflow
async def flow(ctx, order):
    return await ctx.event("paid", order["id"])  # bad: bad_arguments, then bad_value
