"""Names a step that is not there"""

from stepwell import step, workflow

@step
def charge(order): ...


@workflow
async def flow(ctx, order):
    return await ctx.step(chrage, order)  # bad: unknown_function, then NameError
