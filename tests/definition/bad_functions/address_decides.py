"""Goes by the address of an object"""

from stepwell import step, workflow

@step
def charge(order): ...


@workflow
async def flow(ctx, order):
    if id(order) % 2:  # bad: not_deterministic
        return await ctx.step(charge, order)
    return order
