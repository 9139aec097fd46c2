"""The code of the golden workflows: the steps of their graphs, and their durable functions."""

from __future__ import annotations

from typing import Any

from stepwell import Put, StepFailed, WorkflowContext, step, wait_for_approval, workflow


@step
def note(n: Any = None, item: Any = None, of: Any = None) -> Any:
    return {"n": n, "item": item, "of": of}


@step
def breaks() -> None:
    raise ValueError("it broke")


@step(at_most_once=True)
def ship() -> dict[str, str]:
    return {"parcel": "p1", "naïve": "ünïcode"}


@step
def ask() -> Any:
    return wait_for_approval("boss")


@workflow
async def durable(ctx: WorkflowContext, room: str) -> dict[str, Any]:
    ctx.update("add", lambda item: ctx.state.update(items=[*ctx.state.get("items", []), item]))
    if ctx.state.get("lives", 0) == 0:
        ctx.state["lives"] = 1
        await ctx.sleep("1h")
        return ctx.continue_as(durable, room)
    async with ctx.lock(room):
        shipped = await ctx.step(ship)
    both = await ctx.all(ctx.event("paid", key=room), ctx.event("packed", key=room))
    await ctx.transact([Put("orders", {"id": ctx.run_id}, {"room": room})])
    approved = await ctx.approval("order", approvers=["ann", "bob"], need=2)
    child = await ctx.child("callee", {"n": 3})
    legs = await ctx.all(ctx.step(note, 1), ctx.all(ctx.step(note, 2), ctx.sleep("1m")))
    try:
        await ctx.step(breaks)
    except StepFailed as failed:
        ctx.state["failed"] = str(failed)
    return {"shipped": shipped, "both": both, "approved": bool(approved), "child": child, "legs": legs}


@workflow
async def tidy(ctx: WorkflowContext) -> str:
    try:
        await ctx.event("never")
    finally:
        await ctx.step(note, "tidied")
    return "never"
