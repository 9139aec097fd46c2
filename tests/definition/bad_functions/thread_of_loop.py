"""Runs asyncio inside of asyncio"""

from __future__ import annotations

import asyncio

from stepwell import workflow


async def pay(order):
    return order


@workflow
async def flow(ctx, order):
    return asyncio.run(pay(order))  # bad: not_deterministic, then not_deterministic
