"""Takes a lock of its module"""

from __future__ import annotations

import asyncio

from stepwell import step, workflow

TILL = asyncio.Lock()


@step
def charge(order: dict) -> str:
    return str(order["id"])


@workflow
async def flow(ctx, order):
    async with TILL:  # bad: not_deterministic
        return await ctx.step(charge, order)
