"""Reads an attribute of what a step without a type hint returns"""

from dataclasses import dataclass

from stepwell import step, workflow


@dataclass
class Receipt:
    number: str


@step
def charge(order):
    return Receipt("r-1")


@workflow
async def flow(ctx, order):
    receipt = await ctx.step(charge, order)
    return receipt.number  # bad: untyped_result, then AttributeError
