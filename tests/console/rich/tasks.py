"""A durable function with tasks, a child, an event, a timer and a lock."""

from __future__ import annotations

from stepwell import WorkflowContext, workflow


def fetch(name: str) -> str:
    return name.upper()


def cook(what: str) -> str:
    return f"cooked {what}"


@workflow
async def dinner(ctx: WorkflowContext, guests: int = 4) -> str:
    """Cooks several dishes at once, and waits for the guests."""
    ctx.state["guests"] = guests
    soup = ctx.start(ctx.step(cook, "soup"))
    roast = ctx.start(ctx.step(cook, "roast"))
    dishes = await ctx.map(fetch, ["salt", "pepper", "bread", "wine"])
    ctx.state["dishes"] = dishes
    await soup
    await roast
    paid, _ = await ctx.first(ctx.event("guests.came", key="dinner"), ctx.approval("host"), ctx.timer("3d"))
    return "eaten" if paid else "cold"
