"""Awaits what it gives to `ctx.first`"""

from stepwell import workflow


@workflow
async def flow(ctx, order):
    return await ctx.first(await ctx.event("paid", key=order["id"]), ctx.timer("2h"))  # bad: bad_await
