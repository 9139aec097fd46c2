"""Calls a step as a function"""

from stepwell import step, workflow

@step
def charge(order): ...


@workflow
async def flow(ctx, order):
    return charge(order)  # bad: step_called
