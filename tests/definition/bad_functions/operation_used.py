"""Uses an operation as if it were its result"""

from __future__ import annotations

from stepwell import step, workflow


@step
def charge(order: dict) -> dict:
    return {"paid": order["id"]}


@workflow
async def flow(ctx, order):
    receipt = ctx.step(charge, order)  # bad: never_awaited, then TypeError
    return receipt["paid"]
