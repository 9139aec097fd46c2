"""A function whose tasks bring large outputs, apart: where its lines are is in no other golden log."""

from __future__ import annotations

import asyncio
from typing import Any

from golden import note

from stepwell import WorkflowContext, workflow


@workflow
async def outputs(ctx: WorkflowContext) -> Any:
    found = await asyncio.gather(
        ctx.step(note, "x" * 1_200), ctx.run(lambda: "y" * 1_100, name="own"), ctx.step(note, 1)
    )
    await ctx.sleep(60)
    return [len(str(one)) for one in found]
