"""Registers a query without its name"""

from __future__ import annotations

from stepwell import workflow


@workflow
async def flow(ctx, order):
    @ctx.query  # bad: bad_query_handler, then bad_query_handler
    def progress():
        return order

    await ctx.sleep("1s")
    return order
