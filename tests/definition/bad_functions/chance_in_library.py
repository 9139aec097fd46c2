"""Reads random bytes of the system"""

from __future__ import annotations

from os import urandom

from stepwell import workflow


@workflow
async def flow(ctx, order):
    return urandom(8).hex()  # bad: not_deterministic, then not_deterministic
