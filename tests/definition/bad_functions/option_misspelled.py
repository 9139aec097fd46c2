"""Misspells an option"""

from stepwell import step, workflow

@step
def charge(order): ...


@workflow
async def flow(ctx, order):
    return await ctx.step(charge, order, tiemout="30s")  # bad: bad_arguments, then step_input
