"""Rate-limited calls: four at a time, and when the service says "later", not before the time that it names."""

from __future__ import annotations

import translator

from stepwell import Retry, Transient, WorkflowContext, step, workflow

AT_ONCE = 4


@step(retry=Retry(10, initial_delay="1s", max_delay="1m", jitter="full"), timeout="30s")
def translate(text: str) -> str:
    answer = translator.post(text)
    if answer.status == 429:
        raise Transient("too many requests", retry_after=answer.headers.get("Retry-After"))
    if answer.status != 200:
        raise ValueError(f"the service answered {answer.status}")
    return answer.body


@workflow
async def translation(ctx: WorkflowContext, texts: list[str]) -> list[str]:
    """Returns the texts in the other language, in order."""
    return await ctx.map(translate, texts, max_concurrency=AT_ONCE)
