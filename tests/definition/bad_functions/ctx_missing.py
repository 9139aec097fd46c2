"""Has no `ctx`"""

from stepwell import step, workflow

@step
def charge(order): ...


@workflow
async def flow(context, order):  # bad: missing_ctx
    return await context.step(charge, order)
