"""Counts in what `ctx.run` calls"""

from __future__ import annotations

from stepwell import workflow


@workflow
async def flow(ctx, order):
    count = 0

    def look():
        nonlocal count  # bad: lost_in_branch, then lost_in_branch
        count += 1

    await ctx.run(look)
    return count
