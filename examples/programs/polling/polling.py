"""Polling with back-off: ask a service until a job is done, ever more rarely, and give up after a day."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta

import farm

from stepwell import Retry, WorkflowContext, step, workflow

FIRST, MOST = timedelta(seconds=5), timedelta(minutes=15)


@dataclass
class State:
    """What the render farm says of a job."""

    done: bool
    url: str = ""


@step(retry=Retry(3), timeout="10s")
def begin(video: str) -> str:
    return farm.submit(video)


@step(retry=Retry(5), timeout="10s")
def look(job: str) -> State:
    url = farm.result_of(job)
    return State(url is not None, url or "")


@workflow
async def render(ctx: WorkflowContext, video: str) -> str:
    """Returns the URL of the rendered video. Fails with TimeoutError after a day."""
    job = await ctx.step(begin, video)
    pause = FIRST
    async with asyncio.timeout(timedelta(days=1).total_seconds()):
        while not (state := await ctx.step(look, job)).done:
            await ctx.sleep(pause)  # nothing runs, and nothing is paid
            pause = min(pause * 2, MOST)
    return state.url
