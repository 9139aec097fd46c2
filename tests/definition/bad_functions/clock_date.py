"""Reads the date and time"""

from datetime import datetime
from stepwell import step, workflow

@step
def charge(order): ...


@workflow
async def flow(ctx, order):
    order['at'] = datetime.now().isoformat()  # bad: not_deterministic, then not_deterministic
    return await ctx.step(charge, order)
