"""A refund that a person approves when it is large."""

from __future__ import annotations

from pydantic import BaseModel

from stepwell import Rejected, WorkflowContext, step, workflow

FREE_CENTS = 5_000  # up to this nobody is asked


class Claim(BaseModel):
    """What a customer wants back."""

    order_id: str
    amount_cents: int


class Decision(BaseModel):
    """What became of a claim."""

    paid_cents: int
    why: str


@step
def pay_back(claim: Claim) -> int:
    """Pays; a real one calls the bank with ctx.idempotency_key."""
    return claim.amount_cents


@workflow
async def refund(ctx: WorkflowContext, claim: Claim) -> Decision:
    """Asks, pays, and says what it did."""
    why = "small enough"
    if claim.amount_cents > FREE_CENTS:
        try:
            approval = await ctx.approval("refund", claim)
        except Rejected as no:
            return Decision(paid_cents=0, why=f"rejected: {no}")
        why = f"approved by {approval['by']}"
    return Decision(paid_cents=await ctx.step(pay_back, claim), why=why)
