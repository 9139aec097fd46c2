"""The saga of `checkout.yaml` as plain Python: `try`, `except`, and a list of what takes each step back."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import store
from pydantic import BaseModel

from stepwell import Cancelled, Retry, StepFailed, WorkflowContext, workflow
from stepwell.runtime.durable.operations import Operation

MONEY_BACK = Retry(10, initial_delay="5s", max_delay="20m")  # even if the bank is away for an hour


class Packed(BaseModel):
    """What the warehouse says of a parcel."""

    boxes: int


@workflow(name="plain-checkout", cleanup="10m")  # that a cancelled one may take for it
async def plain_checkout(
    ctx: WorkflowContext, order_id: str, email: str, country: str, card: str, items: list[store.Item]
) -> dict[str, str]:
    """Reserve the goods, screen the customer, charge the card, wait for the parcel to be packed, book the shipment."""
    undo: dict[str, Callable[[], Operation[Any]]] = {}  # an operation that is made has to be awaited
    try:
        held = await ctx.step(store.reserve, order_id, items, timeout="10s")
        undo["release"] = partial(ctx.step, store.release, order_id, items, timeout="10s")

        await ctx.child("fraud-check", {"email": email, "country": country, "total": held.total}, timeout="8h")

        payment = await ctx.step(store.charge, order_id, card, held.total, timeout="10s", retry=Retry(2))
        undo["refund"] = partial(ctx.step, store.refund, order_id, payment, timeout="10s", retry=MONEY_BACK)

        await ctx.step(store.thank, order_id, email, timeout="10s")  # a mail cannot be unsent

        packed = await ctx.event("warehouse.packed", key=order_id, timeout="3d", type=Packed)
        return await ctx.step(store.ship, order_id, country, packed.boxes, timeout="10s", retry=Retry(2))
    except (Exception, Cancelled):  # a step has failed, nobody has packed, the customer has changed her mind
        await take_back(ctx, undo)
        raise


async def take_back(ctx: WorkflowContext, undo: dict[str, Callable[[], Operation[Any]]]) -> None:
    """The last first. After one that fails for good nothing further is undone: somebody has to look."""
    for name in reversed(list(undo)):
        try:
            await undo[name]()
        except StepFailed:
            ctx.state["not_undone"] = list(reversed(undo))
            return
        del undo[name]
