"""What the assistant can do, each a step. What is in DANGEROUS is done only when a person has said yes.

| variable | means | default |
|---|---|---|
| `ASSISTANT_DATA` | the folder of the bank's book | `.stepwell/assistant`; in a Lambda function a temporary one |
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from stepwell import StepContext, StepError, step

ORDERS = {
    "A-1": ("lamp", "19.90", "arrived broken"),
    "A-2": ("desk", "389.00", "arrived"),
    "A-3": ("chair", "129.50", "arrived broken"),
    "A-4": ("shelf", "74.00", "arrived"),
    "A-5": ("mirror", "58.00", "arrived broken"),
    "A-6": ("clock", "24.00", "is on its way"),
    "A-7": ("vase", "31.00", "arrived"),
    "A-8": ("stool", "45.00", "arrived"),
}


class UnknownOrder(StepError):
    """The model has made it up, or read it wrong."""


@step(timeout="10s")
def look_up(order_id: str) -> str:
    """What is known of an order."""
    what, price, state = _order(order_id)
    return f"{order_id}: {what}, {price} EUR, {state}"


@step(timeout="10s", retry={"max_retries": 3})
def refund(order_id: str, ctx: StepContext) -> str:
    """Pays an order back, once: the bank knows the idempotency key."""
    price = _order(order_id)[1]
    book = _book()
    if ctx.idempotency_key not in (book.read_text() if book.exists() else ""):
        with book.open("a") as out:
            out.write(f"{ctx.idempotency_key} {order_id} {price}\n")
    return f"{order_id}: paid back {price} EUR"


TOOLS: dict[str, Callable[..., str]] = {"look_up": look_up, "refund": refund}
DANGEROUS = {"refund"}


def _order(order_id: str) -> tuple[str, str, str]:
    if order_id not in ORDERS:
        raise UnknownOrder(f"{order_id} is no order of ours")
    return ORDERS[order_id]


def _book() -> Path:
    usual = Path(tempfile.gettempdir()) / "bank" if "LAMBDA_TASK_ROOT" in os.environ else Path(".stepwell/assistant")
    folder = Path(os.environ.get("ASSISTANT_DATA") or usual)
    folder.mkdir(parents=True, exist_ok=True)
    return folder / "bank.txt"
