"""A subscription, as long as it lasts: a month is paid for and slept through, and the run begins anew with the next."""

from __future__ import annotations

from calendar import monthrange
from datetime import datetime, timedelta
from typing import Literal

from billing import charge, charge_difference, write_mail

from stepwell import StepFailed, WorkflowContext, workflow

CANCEL, UPGRADE, CARD = "subscription.cancel", "subscription.upgrade", "card.updated"  # events; the key: the customer
KNOWN_PLAN = "has(event.plan) && event.plan in ['basic', 'team', 'pro']"  # any other upgrade is nobody's
Plan = Literal["basic", "team", "pro"]
PATIENCE = ("3d", "5d", "7d")  # after each charge that failed, until the next


@workflow
async def subscription(ctx: WorkflowContext, customer: str, plan: Plan = "basic") -> dict[str, str]:
    """One month of it. What the next one needs to know is in the run's state."""
    state = ctx.state
    if "period" not in state:
        state.update(plan=plan, period=1, since=ctx.now().isoformat(), paid_until=ctx.now().isoformat())

    if why := await unpaid(ctx, customer):
        return ended(ctx, why)
    until = months_after(datetime.fromisoformat(state["since"]), state["period"])
    state["paid_until"] = until.isoformat()

    while (left := until - ctx.now()) > timedelta():
        cancel = ctx.event(CANCEL, key=customer)
        better = ctx.event(UPGRADE, key=customer, match=KNOWN_PLAN)
        came = await ctx.first(cancel, better, ctx.timer(left), name="month")
        if came.winner == 0:
            return ended(ctx, "cancelled")
        if came.winner == 1:
            await upgrade(ctx, customer, came.value["plan"], (until - ctx.now()).days)

    state["period"] += 1
    return ctx.continue_as(subscription, customer)


async def unpaid(ctx: WorkflowContext, customer: str) -> str:
    """Charges the month; empty, or why it ends unpaid: all patience is gone, or the customer is."""
    for pause in PATIENCE:
        try:
            await ctx.step(charge, customer, ctx.state["plan"], ctx.state["period"])
        except StepFailed as no:
            await ctx.step(write_mail, customer, f"{no}; we try again in {pause}, or when you have a new card")
        else:
            return ""
        card, cancel = ctx.event(CARD, key=customer), ctx.event(CANCEL, key=customer)
        came = await ctx.first(card, cancel, ctx.timer(pause), name="new_card")
        if came.winner == 1:
            return "cancelled"
    await ctx.step(write_mail, customer, "your subscription has ended")
    return "unpaid"


async def upgrade(ctx: WorkflowContext, customer: str, plan: str, days_left: int) -> None:
    """The new plan counts from when its difference is paid; a card that is declined changes nothing."""
    try:
        await ctx.step(charge_difference, customer, ctx.state["plan"], plan, days_left)
    except StepFailed as no:
        await ctx.step(write_mail, customer, f"{no}; you stay with {ctx.state['plan']}")
    else:
        ctx.state["plan"] = plan


def months_after(since: datetime, months: int) -> datetime:
    """The same day of a later month, or its last day: what began on a 31st does not drift to the 28th for good."""
    year, month = divmod(since.year * 12 + since.month - 1 + months, 12)
    return since.replace(year=year, month=month + 1, day=min(since.day, monthrange(year, month + 1)[1]))


def ended(ctx: WorkflowContext, why: str) -> dict[str, str]:
    return {"ended": why, "plan": ctx.state["plan"], "paid_until": ctx.state["paid_until"]}
