"""Asks `ctx` for what it does not have"""

from stepwell import step, workflow

@step
def charge(order): ...


@workflow
async def flow(ctx, order):
    await ctx.wait_for_event("paid", key=order["id"])  # bad: unknown_operation, then AttributeError
    return await ctx.step(charge, order)
