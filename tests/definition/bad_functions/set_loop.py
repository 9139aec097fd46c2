"""Loops over a set"""

from stepwell import step, workflow

@step
def charge(order): ...


@workflow
async def flow(ctx, orders):
    open_orders = set(orders)
    for order in open_orders:  # bad: not_deterministic
        await ctx.step(charge, order)
