"""Children with cancellation: each carrier is asked by a child run; the first fair offer wins, the others withdraw."""

from __future__ import annotations

from dataclasses import dataclass

import carriers

from stepwell import ChildFailed, Retry, StepContext, WorkflowContext, step, workflow


@dataclass
class Offer:
    """What a carrier wants for the load."""

    carrier: str
    price: float


@step(retry=Retry(5), timeout="30s")
def ask(load: str, carrier: str, ctx: StepContext) -> str:
    return carriers.request(carrier, f"ask {load}", ctx.idempotency_key)


@step(retry=Retry(10), timeout="30s")
def withdraw(load: str, carrier: str, ctx: StepContext) -> None:
    carriers.request(carrier, f"withdraw {load}", ctx.idempotency_key)


@workflow(cleanup="10m")
async def offer_of(ctx: WorkflowContext, load: str, carrier: str) -> Offer:
    """A carrier's offer. Whoever is not waited for any more is told so."""
    await ctx.step(ask, load, carrier)
    is_heard = False
    try:
        offer = await ctx.event("offer", key=f"{load} {carrier}", type=Offer, timeout="2d")
        is_heard = True
        return offer
    finally:
        if not is_heard:
            await ctx.step(withdraw, load, carrier)


@workflow
async def freight(ctx: WorkflowContext, load: str, asked: list[str], most: float) -> Offer | None:
    """Returns the first offer of `most` at most; None if nobody makes one within two days."""
    offers = [ctx.start(ctx.child(offer_of, load, carrier), name=carrier) for carrier in asked]
    async for ended in ctx.as_completed(offers):
        try:
            offer = await ended
        except ChildFailed:  # this one has not answered; the others may
            continue
        if offer.price <= most:
            return offer  # tasks that are left are cancelled, and their children with them
    return None
