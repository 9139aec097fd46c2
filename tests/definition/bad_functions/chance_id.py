"""Makes a random id"""

from uuid import uuid4
from stepwell import step, workflow

@step
def charge(order): ...


@workflow
async def flow(ctx, order):
    order['id'] = str(uuid4())  # bad: not_deterministic, then not_deterministic
    return await ctx.step(charge, order)
