"""Chooses at random"""

import random
from stepwell import step, workflow

@step
def charge(order): ...


@workflow
async def flow(ctx, order):
    order = random.choice(order)  # bad: not_deterministic, then not_deterministic
    return await ctx.step(charge, order)
