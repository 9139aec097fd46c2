"""Gives asyncio a text as its seconds"""

import asyncio

from stepwell import workflow


@workflow
async def flow(ctx, order):
    async with asyncio.timeout("2h"):  # bad: bad_duration, then TypeError
        return await ctx.event("paid", key=order["id"])
