"""Asks for a step in what `ctx.run` calls"""

from stepwell import step, workflow


@step
def charge(order):
    return order


@workflow
async def flow(ctx, order):
    async def pay():
        return await ctx.step(charge, order)

    return await ctx.run(pay)  # bad: nested_step, then no_workflow
