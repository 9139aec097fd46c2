"""Asks whoever sits at the terminal"""

from __future__ import annotations

from stepwell import workflow


@workflow
async def flow(ctx, order):
    return input("pay? ")  # bad: not_deterministic, then not_deterministic
