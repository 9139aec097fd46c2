"""An entity: a customer's points. Signals add to them, updates spend them, a query shows them, for years."""

from __future__ import annotations

import ledger

from stepwell import Retry, StepContext, WorkflowContext, step, workflow

MOST_CHANGES = 20  # then it begins anew, so that a replay stays short


@step(retry=Retry(5), timeout="30s")
def order_voucher(points: int, ctx: StepContext) -> str:
    return ledger.voucher(points, ctx.idempotency_key)


@workflow
async def account(ctx: WorkflowContext, points: int = 0) -> int:
    """Ends with an event `closed`, and returns what is left. Its run's id is the customer's."""
    changes = ordering = 0
    ctx.query("points", lambda: points)

    @ctx.update("spend")
    async def spend(amount: int) -> str:
        nonlocal points, changes, ordering
        points, changes, ordering = points - amount, changes + 1, ordering + 1
        try:
            return await ctx.step(order_voucher, amount)
        except Exception:
            points += amount
            raise
        finally:
            ordering -= 1

    @spend.validator
    def affordable(amount: int) -> None:
        if not 0 < amount <= points:
            raise ValueError(f"{amount} of {points} points cannot be spent")

    def is_long() -> bool:
        return changes >= MOST_CHANGES

    while not is_long():
        signal = await ctx.first(ctx.event("earned", type=int), ctx.event("closed"), ctx.until(is_long))
        if signal.winner == 0:
            points, changes = points + signal.value, changes + 1
        if signal.winner == 1:
            await ctx.until(lambda: not ordering)  # handlers end before their function does
            return points
    await ctx.until(lambda: not ordering)
    return ctx.continue_as(account, points)
