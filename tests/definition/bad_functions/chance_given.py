"""Gives chance to a function that calls it"""

from __future__ import annotations

import random

from stepwell import workflow


@workflow
async def flow(ctx, order):
    return list(map(random.choice, [["a", "b"], ["c"]]))  # bad: not_deterministic
