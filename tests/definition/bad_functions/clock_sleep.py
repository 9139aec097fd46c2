"""Blocks for a while"""

import time
from stepwell import step, workflow

@step
def charge(order): ...


@workflow
async def flow(ctx, order):
    time.sleep(1)  # bad: not_deterministic, then not_deterministic
    return await ctx.step(charge, order)
