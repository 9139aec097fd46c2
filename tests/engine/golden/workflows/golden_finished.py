"""The code of the golden log of a redriven run whose tasks take what they had finished in the run that failed."""

from __future__ import annotations

import asyncio

from stepwell import WorkflowContext, step, workflow


@step
def charge(who: str) -> str:
    return f"charged {who}"


@step
def mail(who: str, text: str) -> str:
    return f"{text} to {who}"


@workflow
async def finished(ctx: WorkflowContext, who: list[str]) -> list[str]:
    async def serve(one: str) -> str:
        await ctx.step(charge, one)
        await ctx.step(mail, one, "welcome")
        return await ctx.step(mail, one, "bill")

    served = await asyncio.gather(*(serve(one) for one in who), return_exceptions=True)
    for one in served:
        if isinstance(one, BaseException):
            raise one
    return [str(one) for one in served]
