"""Branches overlap: as many are under way as the fork allows, and the first to end is the first to arrive.

The steps meet at barriers, so that a test says how many ran at the same time, however fast the machine is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stepwell.limits import MINUTE_MS
from stepwell.local.pump import Pump
from stepwell.local.wiring import Local, open_local
from stepwell.runtime.folder.loading import load_folder
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.starts.starting import Start

STEPS = """
import threading
from stepwell import step, workflow

PAIR, QUARTET, TEN, LAST = (threading.Barrier(count) for count in (2, 4, 10, 2))
OPEN = threading.Event()
most, running, lock = 0, 0, threading.Lock()

def meet(barrier):
    global most, running
    with lock:
        running += 1
        most = max(most, running)
    barrier.wait(timeout=60)
    with lock:
        running -= 1
    return most

def pair(**_): return meet(PAIR)
def four(**_): return meet(QUARTET)
def all_ten(**_): return meet(TEN)

def slow_first(n):
    if n == 0:
        OPEN.wait(timeout=60)
    return n

def opens(**_):
    OPEN.set()
    return True

ENDED = threading.Semaphore(0)

def outlasts(n):
    if n:
        ENDED.release()
        return n
    for _ in range(5):
        assert ENDED.acquire(timeout=60)
    return n

def first_waits_for_last(n):
    if n == 0:
        LAST.wait(timeout=60)
    if n == 2:
        try:
            return n
        finally:
            threading.Timer(0.2, LAST.wait).start()
    return n

@step
def quartet(n): return meet(QUARTET)

@workflow
async def mapped(ctx, numbers):
    return await ctx.map(quartet, numbers, max_concurrency=4)
"""
FORK = """
workflow: {name}
nodes:
  fork: {{fan_out: all, transitions: [{{to: work, foreach: "{{{{ input.numbers }}}}", as: n{limit}}}]}}
  work: {{run: "python:steps.{step}", input: {{n: "{{{{ branch.item }}}}"}}, output: {{n: "{{{{ result }}}}"}},
         timeout: 2m, transitions: [{{to: gather}}]}}
  gather: {{fan_in: {fan_in}{more}}}
"""


def fork(name: str, step: str, fan_in: str = "{policy: all, target: outs}", limit: int = 0, more: str = "") -> str:
    bound = f", max_concurrency: {limit}" if limit else ""
    return FORK.format(name=name, step=step, fan_in=fan_in, limit=bound, more=more)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Callable[..., object]]:
    """Runs a workflow of the folder to its end on a real queue with real threads. Returns its result."""
    folder = tmp_path / "workflows"
    folder.mkdir()
    (folder / "steps.py").write_text(STEPS)
    any_of = "{policy: any, merge: last_wins, target: out}"
    (folder / "pairs.yaml").write_text(fork("pairs", "pair", limit=2))
    (folder / "uneven.yaml").write_text(fork("uneven", "outlasts", limit=2))
    (folder / "ten.yaml").write_text(fork("ten", "all_ten"))
    (folder / "race.yaml").write_text(fork("race", "slow_first", any_of, more=", run: python:steps.opens"))
    last = "{policy: all, merge: last_wins, target: out}"
    (folder / "last.yaml").write_text(fork("last", "first_waits_for_last", last))
    local = open_local(tmp_path / "data", folder, load_folder(folder).graphs)
    pump = Pump(local)
    pump.start()

    def start(name: str, count: int) -> object:
        service = local.parts.service
        run_id = run_now(service.start(Start(name, {"numbers": list(range(count))}))).header.run_id
        assert run_now(service.wait_for_end(run_id, 2 * MINUTE_MS)).status == "completed"
        token = run_now(service.standing(run_id)).token
        return token.result if token.result is not None else dict(token.scope)

    yield start
    _stop(local, pump)


def _stop(local: Local, pump: Pump) -> None:
    pump.stop(2.0)
    local.bell.ring_all()
    local.close()


def test_two_at_a_time_means_that_two_are_under_way_until_the_end(run: Callable[..., object]) -> None:
    """Each step waits for another one, and no third one runs beside them."""
    outs = run("pairs", 10)
    assert isinstance(outs, list)
    assert [one["n"] for one in outs] == [2] * 10


def test_a_slow_step_lets_the_others_run_beside_it(run: Callable[..., object]) -> None:
    """The first step ends when all others have ended, and two may run at once."""
    outs = run("uneven", 6)
    assert isinstance(outs, list)
    assert [one["n"] for one in outs] == [0, 1, 2, 3, 4, 5]


def test_branches_without_a_bound_overlap_whatever_message_brought_them(run: Callable[..., object]) -> None:
    outs = run("ten", 10)
    assert isinstance(outs, list)
    assert [one["n"] for one in outs] == [10] * 10


def test_any_is_won_by_the_first_to_end_and_not_by_the_first_in_the_message(run: Callable[..., object]) -> None:
    """The first branch cannot end before the run has gone on."""
    assert run("race", 3) is True


def test_the_last_to_end_wins_where_the_last_wins(run: Callable[..., object]) -> None:
    out = run("last", 3)
    assert out == {"n": 0}


def test_a_map_of_a_durable_function_keeps_as_many_under_way_as_it_may(run: Callable[..., object]) -> None:
    assert run("mapped", 8) == [4] * 8
