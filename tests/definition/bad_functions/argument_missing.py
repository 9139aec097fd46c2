"""Leaves an argument out"""

from stepwell import step, workflow

@step
def pay(order, card): ...


@workflow
async def flow(ctx, order):
    return await ctx.step(pay, order)  # bad: bad_arguments, then step_input
