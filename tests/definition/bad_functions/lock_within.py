"""Takes a lock within another one"""

from stepwell import step, workflow


@step
def charge(order):
    return order


@workflow
async def flow(ctx, order):
    async with ctx.lock("till"):
        async with ctx.lock(order["id"]):  # bad: lock_nested, then lock_nested
            return await ctx.step(charge, order)
