"""A durable function that asks a person, and can be asked."""

from __future__ import annotations

from pydantic import BaseModel

from stepwell import WorkflowContext, workflow


class Order(BaseModel):
    item: str
    amount: int


class Receipt(BaseModel):
    item: str
    by: str


@workflow
async def checkout(ctx: WorkflowContext, order: Order) -> Receipt:
    item = order.item

    @ctx.query("item")
    def item_now() -> str:
        return item

    @ctx.update("rename")
    def rename(to: str) -> str:
        nonlocal item
        item = to
        return item

    approval = await ctx.approval("check")
    return Receipt(item=item, by=str(approval["by"]))
