"""Counts in a variable of its module"""

from __future__ import annotations

from stepwell import workflow

ORDERS = []


@workflow
async def flow(ctx, order):
    ORDERS.append(order)  # bad: not_deterministic
    return len(ORDERS)
