"""Reads the clock under another name"""

from time import time as seconds
from stepwell import step, workflow

@step
def charge(order): ...


@workflow
async def flow(ctx, order):
    began = seconds()  # bad: not_deterministic, then not_deterministic
    return await ctx.step(charge, order)
