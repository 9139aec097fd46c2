"""Changes something when it is asked"""

from __future__ import annotations

from stepwell import workflow


@workflow
async def flow(ctx, order):
    asked = []

    @ctx.query("asked")
    def count():
        asked.append(1)  # bad: read_only_query
        return len(asked)

    await ctx.sleep("1h")
    return len(asked)
