"""Starts a process"""

import subprocess
from stepwell import step, workflow

@step
def charge(order): ...


@workflow
async def flow(ctx, order):
    subprocess.run(['ls'])  # bad: not_deterministic, then not_deterministic
    return await ctx.step(charge, order)
