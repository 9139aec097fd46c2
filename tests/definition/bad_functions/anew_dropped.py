"""Forgets to return `ctx.continue_as`"""

from __future__ import annotations

from stepwell import workflow


@workflow
async def flow(ctx, order):
    await ctx.sleep("0s")
    if order["id"]:
        ctx.continue_as(flow, order)  # bad: never_returned, then never_returned
