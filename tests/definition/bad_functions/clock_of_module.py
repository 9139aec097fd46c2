"""Takes the time as its module is imported"""

from __future__ import annotations

import time

from stepwell import workflow

STARTED = time.time()


@workflow
async def flow(ctx, order):
    return STARTED  # bad: not_deterministic
