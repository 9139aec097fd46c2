"""Steps that return as much as they are asked for, or fail the first time."""

from __future__ import annotations

import asyncio
from typing import Any


def give(size: int = 1) -> str:
    return "x" * size


async def counted(ctx: Any) -> None:
    """A durable function, under the name that its definition gives it."""
    ctx.query("count", lambda: 1)
    ctx.update("add", lambda n: n)
    await ctx.event("never")


counted.__stepwell_workflow__ = "counted"  # type: ignore[attr-defined]  # functions take any attribute


async def recalls(ctx: Any) -> int:
    """A durable function whose tasks bring large outputs, and then ask another pool."""
    found = await asyncio.gather(ctx.step(give, 2_000), ctx.step(give, 3_000))
    few, _ = await asyncio.gather(ctx.step(give, 1, pool="heavy"), ctx.step(give, 2, pool="heavy"))
    return sum(map(len, (*found, few)))


recalls.__stepwell_workflow__ = "recalls"  # type: ignore[attr-defined]  # functions take any attribute


def recover(ctx: Any) -> int:
    if ctx.attempt == 1:
        raise ConnectionError("the first time")
    return int(ctx.attempt)


def emit(ctx: Any) -> None:
    ctx.emit("half way")


def send_url(ctx: Any) -> bool:
    return "/callbacks/" in ctx.callback_url("1h")


def count(laps: int) -> int:
    return laps + 1
