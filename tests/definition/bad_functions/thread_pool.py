"""Uses an executor"""

import asyncio
from stepwell import step, workflow

@step
def charge(order): ...


@workflow
async def flow(ctx, order):
    await asyncio.get_running_loop().run_in_executor(None, print)  # bad: not_deterministic, then foreign_await
    return await ctx.step(charge, order)
