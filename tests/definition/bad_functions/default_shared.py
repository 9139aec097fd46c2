"""Changes the default of a parameter"""

from __future__ import annotations

from stepwell import workflow


@workflow
async def flow(ctx, order, seen: list = []):  # noqa: B006 - that is the mistake
    seen.append(order)  # bad: not_deterministic
    return seen
