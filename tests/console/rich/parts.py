"""The steps of the rich demonstration: slow, failing, talking and deep ones."""

from __future__ import annotations

import time
from typing import Any

from stepwell import StepContext, Transient, step

TALKED = ("Reading the contract", "Found 12 clauses", "Clause 7 limits the liability", "Asking for a second look")


def plan(regions: int, shops: int) -> list[dict[str, Any]]:
    return [
        {"region": f"region-{at}", "shops": [f"shop-{at}-{shop}" for shop in range(shops)]} for at in range(regions)
    ]


def stock(shop: str) -> dict[str, int]:
    if shop.endswith("-2"):
        raise LookupError(f"{shop} has no till")
    return {"items": len(shop)}


def ok() -> str:
    return "ready"


def broken() -> None:
    raise ValueError("the image cannot be built: no space left on /var/lib/build")


def flaky(ctx: StepContext) -> str:
    if ctx.attempt < 3:
        raise Transient("the registry answers 503")
    return "pushed"


def deep(depth: int) -> int:
    return depth / 0 if depth == 0 else deep(depth - 1)  # type: ignore[return-value]  # it fails: that is what it is for


def slow(seconds: float) -> str:
    time.sleep(seconds)
    return "slept"


def talk(ctx: StepContext) -> str:
    for said in TALKED:
        ctx.emit({"text": said})
        ctx.logger.info(said)
    return "read"


def chat(lines: int, ctx: StepContext) -> str:
    for number in range(lines):
        print(f"line {number} <b>bold</b>")
        time.sleep(0.5)
    ctx.logger.warning("the end is near")
    return "said"


def draft(round_number: int) -> dict[str, int]:
    return {"score": 30 * round_number}


@step(name="send_message")
def send_message(message: str) -> dict[str, str]:
    return {"sent": message}
