"""Calls a service with a client of the module"""

import httpx
from stepwell import step, workflow

client = httpx.Client()


@step
def charge(order): ...


@workflow
async def flow(ctx, order):
    order = client.get('https://example.com').json()  # bad: not_deterministic
    return await ctx.step(charge, order)
