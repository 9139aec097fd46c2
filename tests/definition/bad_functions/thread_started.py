"""Starts a thread"""

import threading
from stepwell import step, workflow

@step
def charge(order): ...


@workflow
async def flow(ctx, order):
    threading.Thread(target=print).start()  # bad: not_deterministic, then not_deterministic
    return await ctx.step(charge, order)
