"""Has the time as a default"""

from __future__ import annotations

from datetime import UTC, datetime

from stepwell import workflow


def stamped(order: dict, at: datetime = datetime.now(UTC)) -> dict:  # bad: not_deterministic
    return {**order, "at": at.isoformat()}


@workflow
async def flow(ctx, order):
    return stamped(order)
