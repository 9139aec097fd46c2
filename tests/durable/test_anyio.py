"""anyio inside a durable function: its task groups, scopes, streams and locks mean what they mean on asyncio."""

from __future__ import annotations

import pytest

from tests.durable.conftest import Flows

CODE = """
import asyncio
import anyio
from stepwell import workflow

def double(n: int) -> int:
    if n == 13:
        raise ValueError("thirteen")
    return n * 2

async def group(ctx):
    made = []
    async def one(n):
        made.append(await ctx.step(double, n))
    async with anyio.create_task_group() as tasks:
        for n in range(3):
            tasks.start_soon(one, n)
    return sorted(made)

async def fails(ctx):
    ended = []
    async def waits():
        try:
            await anyio.sleep(60)
        finally:
            ended.append("waits")
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(waits)
            await ctx.step(double, 13)
    except ExceptionGroup as errors:
        return [ended, len(errors.exceptions)]

async def late(ctx):
    began = anyio.current_time()
    with anyio.move_on_after(5) as scope:
        await anyio.sleep(60)
    return [scope.cancelled_caught, anyio.current_time() - began]

async def shields(ctx):
    with anyio.move_on_after(5):
        try:
            await anyio.sleep(60)
        finally:
            with anyio.CancelScope(shield=True):
                doubled = await ctx.step(double, 4)
    return doubled

async def streams(ctx):
    send, receive = anyio.create_memory_object_stream(2)
    async def produce():
        async with send:
            for n in range(4):
                await send.send(await ctx.step(double, n))
    made = []
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(produce)
        async with receive:
            async for n in receive:
                made.append(n)
    return made

async def waits_for_start(ctx):
    async def serve(*, task_status):
        await anyio.sleep(2)
        task_status.started("up")
        await anyio.sleep(60)
    async with anyio.create_task_group() as tasks:
        up = await tasks.start(serve)
        tasks.cancel_scope.cancel()
    return up

async def limits(ctx):
    under_way, most = 0, 0
    limiter = anyio.CapacityLimiter(2)
    async def one(n):
        nonlocal under_way, most
        async with limiter:
            under_way += 1
            most = max(most, under_way)
            await ctx.step(double, n)
            under_way -= 1
    async with anyio.create_task_group() as tasks:
        for n in range(5):
            tasks.start_soon(one, n)
    return most

async def is_a_task(ctx):
    task = asyncio.create_task(anyio.sleep(1))
    await task
    return [isinstance(task, asyncio.Task), isinstance(asyncio.current_task(), asyncio.Task)]

async def generators(ctx):
    ended = []
    async def numbers():
        try:
            for n in range(9):
                yield await ctx.step(double, n)
        finally:
            ended.append("closed")
    async for n in numbers():
        if n == 4:
            break
    await anyio.sleep(1)
    return [n, ended]

@workflow
async def flow(ctx, name: str):
    return await globals()[name](ctx)
"""
EXPECTED = {
    "group": [0, 2, 4],
    "fails": [["waits"], 1],
    "late": [True, 5.0],
    "shields": 8,
    "streams": [0, 2, 4, 6],
    "waits_for_start": "up",
    "limits": 2,
    "is_a_task": [True, True],
    "generators": [4, ["closed"]],
}


@pytest.mark.parametrize("name", EXPECTED)
@pytest.mark.parametrize("sessions", [1_000, 0], ids=["kept", "replayed"])
def test_it_does_here_what_it_does_on_plain_asyncio(flows: Flows, name: str, sessions: int) -> None:
    kit = flows(CODE, sessions=sessions)
    run = kit.start("flow", {"name": name})
    kit.advance("5m")
    assert (run.status, run.result) == ("completed", EXPECTED[name]), run.view.get("error")
