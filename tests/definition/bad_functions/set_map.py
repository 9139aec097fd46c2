"""Fans out over a set"""

from stepwell import step, workflow

@step
def charge(order): ...


@workflow
async def flow(ctx, orders):
    return await ctx.map(charge, {order["id"] for order in orders})  # bad: not_deterministic
