"""An approval with reminders: every two days the manager is reminded, after a week the director may decide as well."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta

import mail

from stepwell import Rejected, Retry, StepContext, WaitTimedOut, WorkflowContext, step, workflow

REMIND_AFTER, ESCALATE_AFTER = timedelta(days=2), timedelta(days=7)


@dataclass
class Claim:
    """What somebody wants to have paid back."""

    who: str
    amount: float
    manager: str
    director: str


@step(retry=Retry(5), timeout="30s")
def write(to: str, text: str, ctx: StepContext) -> None:
    mail.send(to, text, ctx.idempotency_key)


@workflow
async def expense(ctx: WorkflowContext, claim: Claim) -> str:
    """Returns what was decided, and by whom. After three weeks without a decision it is refused."""
    since, asked = ctx.now(), [claim.manager]
    decision = ctx.start(ctx.approval("expense", claim, timeout="21d"), name="decision")
    await ctx.step(write, claim.manager, f"{claim.who} asks for {claim.amount:.2f}")
    while not (await asyncio.wait({decision}, timeout=REMIND_AFTER.total_seconds()))[0]:
        if ctx.now() - since > ESCALATE_AFTER and claim.director not in asked:
            asked.append(claim.director)
        for person in asked:
            await ctx.step(write, person, f"{claim.who} still waits for {claim.amount:.2f}")
    try:
        outcome = f"approved by {(await decision)['by']}"
    except Rejected as no:
        outcome = f"rejected: {no}"
    except WaitTimedOut:
        outcome = "nobody has decided"
    await ctx.step(write, claim.who, outcome)
    return outcome
