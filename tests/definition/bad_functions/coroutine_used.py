"""Asks a function of its own that it does not await"""

from stepwell import step, workflow


@step
def score(order):
    return 1


async def is_risky(ctx, order):
    return await ctx.step(score, order) > 2


@workflow
async def flow(ctx, order):
    if is_risky(ctx, order):  # bad: never_awaited
        return "refused"
    return "taken"
