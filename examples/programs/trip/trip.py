"""A saga: a flight, a hotel and a car, or nothing. Whatever was booked is cancelled when something later fails."""

from __future__ import annotations

from contextlib import AsyncExitStack

import travel

from stepwell import Retry, StepContext, WorkflowContext, step, workflow

FOR_LONG = Retry(20, initial_delay="5s", max_delay="1h")  # a booking that is not cancelled costs money


@step(retry=Retry(3), timeout="30s")
def book(company: str, place: str, ctx: StepContext) -> str:
    return travel.ask(company, f"book to {place}", ctx.idempotency_key)


@step(retry=FOR_LONG, timeout="30s")
def cancel(company: str, booking: str, ctx: StepContext) -> None:
    travel.ask(company, f"cancel {booking}", ctx.idempotency_key)


@workflow(timeout="30d", cleanup="10m")
async def trip(ctx: WorkflowContext, place: str) -> list[str]:
    """Books all three, and waits for the traveller to confirm. Fails, with nothing booked, if one cannot be had."""
    bookings: list[str] = []

    async def undo(company: str, booking: str) -> None:
        await ctx.step(cancel, company, booking)

    async with AsyncExitStack() as stack:
        for company in ("flight", "hotel", "car"):
            booking = await ctx.step(book, company, place)
            stack.push_async_callback(undo, company, booking)
            bookings.append(booking)
        await ctx.event("confirmed", timeout="2d")
        stack.pop_all()  # it is wanted: nothing is undone
    return bookings
