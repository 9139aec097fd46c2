"""A function with tasks, apart: where its lines are is in no other golden log."""

from __future__ import annotations

import asyncio
from typing import Any

from golden import breaks, note

from stepwell import WorkflowContext, workflow


@workflow
async def tasks(ctx: WorkflowContext) -> Any:
    paid = asyncio.create_task(ctx.event("paid", key="k"))
    try:
        async with asyncio.timeout(60):
            await asyncio.gather(ctx.step(note, 1), ctx.event("never"))
    except TimeoutError:
        ctx.state["late"] = True
    failed = await asyncio.gather(ctx.step(breaks), return_exceptions=True)
    return [await paid, len(failed)]
