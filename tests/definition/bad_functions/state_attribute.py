"""Gives `ctx.state` an attribute"""

from stepwell import workflow


@workflow
async def flow(ctx, order):
    ctx.state.order = order  # bad: unknown_operation, then AttributeError
