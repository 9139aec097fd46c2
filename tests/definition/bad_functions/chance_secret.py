"""Makes a secret"""

import secrets
from stepwell import step, workflow

@step
def charge(order): ...


@workflow
async def flow(ctx, order):
    order['token'] = secrets.token_hex()  # bad: not_deterministic, then not_deterministic
    return await ctx.step(charge, order)
