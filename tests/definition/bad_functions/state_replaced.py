"""Replaces `ctx.state`"""

from stepwell import workflow


@workflow
async def flow(ctx, order):
    ctx.state = {"order": order}  # bad: bad_assignment, then bad_assignment
