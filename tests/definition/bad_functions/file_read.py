"""Reads a file"""

from pathlib import Path
from stepwell import step, workflow

@step
def charge(order): ...


@workflow
async def flow(ctx, order):
    order = Path('order.json').read_text()  # bad: not_deterministic, then not_deterministic
    return await ctx.step(charge, order)
