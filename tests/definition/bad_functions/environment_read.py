"""Reads the environment"""

import os
from stepwell import step, workflow

@step
def charge(order): ...


@workflow
async def flow(ctx, order):
    order['region'] = os.environ['AWS_REGION']  # bad: not_deterministic
    return await ctx.step(charge, order)
