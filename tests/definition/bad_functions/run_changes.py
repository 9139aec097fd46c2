"""Collects what `ctx.run` finds in a variable"""

from __future__ import annotations

from stepwell import workflow


@workflow
async def flow(ctx, order):
    found = []

    def look():
        found.append(order["id"])  # bad: lost_in_branch, then lost_in_branch

    await ctx.run(look)
    return found
