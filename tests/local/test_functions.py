"""Durable functions on the dev server: what is awaited together overlaps, and a kill loses nothing of it."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.local.kit import Dev, until

MODULE = '''
import threading
from pathlib import Path
from stepwell import step, workflow

HERE = Path(__file__).parent
BOTH = threading.Barrier(2)

@step(timeout="100s")
def meet(name: str) -> str:
    """Returns when the other is there too."""
    BOTH.wait(90)
    return name

@workflow
async def together(ctx):
    return await ctx.all(ctx.step(meet, "a"), ctx.step(meet, "b"))

@step
def count(n: int) -> int:
    with (HERE / "counted").open("a") as file:
        file.write(f"{n}\\n")
    if n == 5 and not (HERE / "go").exists():
        (HERE / "there").touch()
        threading.Event().wait()
    return n

@workflow
async def counts(ctx):
    ctx.state["lucky"] = ctx.random()
    total = 0
    for n in range(10):
        total += await ctx.step(count, n)
        ctx.state["total"] = total
    return [total, ctx.state["lucky"], ctx.random()]
'''


@pytest.fixture
def functions(folder: Path) -> Path:
    (folder / "counting.py").write_text(MODULE)
    return folder


def test_two_steps_that_are_awaited_together_overlap(functions: Path, dev: Callable[[], Dev]) -> None:
    server = dev()
    assert server.call("POST", "/workflows/together/runs", {"run_id": "r1"})[0] == 201
    until(lambda: server.status("r1") == "completed", "both steps")
    assert server.call("GET", "/runs/r1/result")[1]["result"] == ["a", "b"]


def test_a_function_goes_on_after_a_kill_with_all_that_it_knew(functions: Path, dev: Callable[[], Dev]) -> None:
    first = dev()
    assert first.call("POST", "/workflows/counts/runs", {"run_id": "r1"})[0] == 201
    until((functions / "there").exists, "the step in the middle")
    lucky = first.call("GET", "/runs/r1")[1]["state"]["lucky"]
    first.end(signal.SIGKILL)
    (functions / "go").touch()
    second = dev()
    until(lambda: second.status("r1") == "completed", "the end")
    total, as_it_was, another = second.call("GET", "/runs/r1/result")[1]["result"]
    assert (total, as_it_was) == (45, lucky)
    assert another != lucky
    counted = (functions / "counted").read_text().split()
    assert counted == [*"012345", *"56789"]  # the one that was killed, and no other, ran twice
