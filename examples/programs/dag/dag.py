"""A graph that the input draws: each task begins when those that it needs have ended, all others beside it."""

from __future__ import annotations

import asyncio
from graphlib import TopologicalSorter

import build

from stepwell import Retry, WorkflowContext, step, workflow


@step(retry=Retry(2), timeout="5m")
def make(target: str, parts: list[str]) -> str:
    return build.make(target, parts)


@workflow
async def build_all(ctx: WorkflowContext, needs: dict[str, list[str]]) -> dict[str, str]:
    """Builds every target of `needs`, which names for each what it needs. Fails with the first target that does."""
    begun: dict[str, asyncio.Task[str]] = {}

    async def built(target: str) -> str:
        parts = await asyncio.gather(*(task_of(one) for one in needs[target]))
        return await ctx.step(make, target, parts)

    def task_of(target: str) -> asyncio.Task[str]:
        if target not in begun:
            begun[target] = ctx.start(built(target), name=target)
        return begun[target]

    TopologicalSorter(needs).prepare()  # raises CycleError
    await ctx.all(*(task_of(target) for target in needs))
    return {target: task.result() for target, task in begun.items()}
