"""A subscription for years: charge, wait for a month, continue as new. A cancel or a plan may come any time."""

from __future__ import annotations

from datetime import timedelta

import till

from stepwell import Retry, StepContext, StepFailed, WorkflowContext, step, workflow

MONTH = timedelta(days=30)
PATIENCE = ("3d", "5d", "7d")  # after a charge that failed, until the next


@step(retry=Retry(5, initial_delay="10s", max_delay="10m"), timeout="30s")  # for a bank that is away
def charge(member: str, plan: str, month: int, ctx: StepContext) -> None:
    till.take(member, f"{plan}, month {month}", ctx.idempotency_key)


@workflow
async def membership(ctx: WorkflowContext, member: str, plan: str = "basic", month: int = 1) -> str:
    """One month of it. It ends with an event `cancel`, or when the card is declined four times."""
    ctx.state.update(plan=plan, month=month)
    if not await is_paid(ctx, member, plan, month):
        return f"not paid for month {month}"
    until = ctx.now() + MONTH
    while (left := until - ctx.now()) > timedelta():
        came = await ctx.first(ctx.event("cancel"), ctx.event("plan", type=str), ctx.timer(left), name="month")
        if came.winner == 0:
            return f"cancelled in month {month}"
        if came.winner == 1:
            plan = ctx.state["plan"] = came.value  # from the next month on
    return ctx.continue_as(membership, member, plan, month + 1)


async def is_paid(ctx: WorkflowContext, member: str, plan: str, month: int) -> bool:
    """Charges, and after a declined card again: some days later, or when there is a new card."""
    for pause in (*PATIENCE, None):
        try:
            await ctx.step(charge, member, plan, month)
            return True
        except StepFailed:
            if pause is not None:
                await ctx.first(ctx.event("card"), ctx.timer(pause), name="card")
    return False
