"""What a library reaches outside for is told with the line of the function that called the library."""

from __future__ import annotations

import pytest

from tests.durable.conftest import Flows

HEAD = """
import asyncio, anyio
from stepwell import workflow
async def fetch(what):
    return await what
@workflow
async def flow(ctx):
    """


@pytest.mark.parametrize(
    "line",
    [
        "await fetch(anyio.connect_tcp('127.0.0.1', 1))",
        "await fetch(anyio.Event().wait())",
        "await fetch(anyio.getaddrinfo('localhost', 1))",
        "await fetch(asyncio.to_thread(len, 'abc'))",
    ],
)
def test_the_function_s_own_line_is_named(flows: Flows, line: str) -> None:
    run = flows(HEAD + line).start("flow")
    assert run.error is not None
    assert run.error["type"] == "foreign_await"
    assert "flow.py" in run.error["message"] or "flow.py" in run.error["traceback"], run.error
