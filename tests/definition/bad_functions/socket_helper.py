"""Calls a function that calls a service"""

import boto3
from stepwell import step, workflow

@step
def charge(order): ...


def load(order):
    return boto3.resource('dynamodb')  # bad: not_deterministic


@workflow
async def flow(ctx, order):
    order = load(order)
    return await ctx.step(charge, order)
