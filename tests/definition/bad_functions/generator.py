"""Yields what it finds"""

from __future__ import annotations

from stepwell import workflow


@workflow
async def flow(ctx, order):  # bad: bad_workflow
    yield order["id"]
