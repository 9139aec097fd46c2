"""Forgets to await an operation"""

from __future__ import annotations

from stepwell import step, workflow


@step
def charge(order: dict) -> str:
    return str(order["id"])


@workflow
async def flow(ctx, order):
    ctx.step(charge, order)  # bad: never_awaited, then never_awaited
