"""Opens a file"""

from stepwell import step, workflow

@step
def charge(order): ...


@workflow
async def flow(ctx, order):
    order = open('order.json').read()  # bad: not_deterministic, then not_deterministic
    return await ctx.step(charge, order)
