"""Forgets to call a function of `ctx`"""

from stepwell import workflow


@workflow
async def flow(ctx, order):
    return ctx.now.isoformat()  # bad: never_called, then AttributeError
