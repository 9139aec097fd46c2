"""Steps that take virtual time overlap as on a server, so that a test sees how long a fork takes and who is first."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from stepwell.testing.backend import in_memory
from stepwell.testing.kit import Run, Stepwell
from tests.scenarios.conftest import BACKENDS

STEPS = """
from stepwell import step, workflow

@step
def nap(seconds):
    raise AssertionError("the test says what it does")

@workflow
async def mapped(ctx, naps, limit):
    return await ctx.map(nap, naps, max_concurrency=limit)

@workflow
async def gathered(ctx, naps):
    return await ctx.all(*(ctx.step(nap, seconds) for seconds in naps))
"""
FORK = """
workflow: {name}
nodes:
  fork: {{fan_out: all, transitions: [{{to: work, foreach: "{{{{ input.naps }}}}", as: nap{bound}}}]}}
  work: {{run: python:steps.nap, input: {{seconds: "{{{{ branch.item }}}}"}}, output: {{n: "{{{{ branch.index }}}}"}},
         transitions: [{{to: gather}}]}}
  gather: {{fan_in: {{{fan_in}, target: out}}}}
"""
DAG = """
workflow: dag
steps:
  - {name: a, run: python:steps.nap, input: {seconds: 2}}
  - {name: b, run: python:steps.nap, input: {seconds: 3}}
  - {name: c, run: python:steps.nap, input: {seconds: 1}, depends_on: [a]}
"""
PARENT = "workflow: parent\ntimeline: [{name: both, children: [{workflow: child}, {workflow: child, name: other}]}]"
CHILD = "workflow: child\nnodes: {a: {run: python:steps.nap, input: {seconds: 3}}}"
RACE = """
workflow: race
nodes:
  fork: {fan_out: all, transitions: [{to: work}, {to: rest}]}
  work: {run: python:steps.nap, input: {seconds: 3600}, timeout: 2h, transitions: [{to: gather}]}
  rest: {sleep: 10m, transitions: [{to: gather}]}
  gather: {fan_in: {policy: any}}
"""


@pytest.fixture(params=["memory", *BACKENDS])
def kit(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stepwell]:
    """On each store and queue, with a step that takes as many seconds as it is given."""
    (tmp_path / "steps.py").write_text(STEPS)
    if request.param == "memory":
        yield started(Stepwell(tmp_path, in_memory()))
        return
    with BACKENDS[request.param](tmp_path) as backend:
        yield started(Stepwell(tmp_path, backend))


def started(kit: Stepwell) -> Stepwell:
    kit.mock("nap", takes=lambda given: given["seconds"])
    return kit


def fork(kit: Stepwell, naps: list[float], fan_in: str = "policy: all", limit: int = 0) -> Run:
    bound = f", max_concurrency: {limit}" if limit else ""
    kit.define(FORK.format(name="fork", bound=bound, fan_in=fan_in))
    return kit.start("fork", {"naps": naps})


def seconds(run: Run) -> float:
    """From its start to its end."""
    began, ended = (datetime.fromisoformat(run.view[name]) for name in ("started_at", "ended_at"))
    assert run.status == "completed"
    return (ended - began).total_seconds()


def test_ten_steps_of_half_a_second_two_at_a_time_take_two_and_a_half(kit: Stepwell) -> None:
    assert seconds(fork(kit, [0.5] * 10, limit=2)) == 2.5


def test_a_map_of_twenty_steps_of_half_a_second_four_at_a_time_takes_two_and_a_half(kit: Stepwell) -> None:
    assert seconds(kit.start("mapped", {"naps": [0.5] * 20, "limit": 4})) == 2.5


def test_a_slow_step_does_not_hold_up_those_behind_it(kit: Stepwell) -> None:
    """Two are under way while two are left: which branch begins is not a matter of which one was slow."""
    naps = [2.0] + [0.5] * 8
    assert seconds(fork(kit, naps, limit=2)) == 3.0
    assert seconds(kit.start("mapped", {"naps": naps, "limit": 2})) == 3.0


def test_a_slow_step_of_a_wide_fork_holds_up_no_page(tmp_path: Path) -> None:
    """Three at a time: 299 seconds of work take a hundred, not the 139 of a slow branch and every third behind it."""
    (tmp_path / "steps.py").write_text(STEPS)
    assert seconds(fork(started(Stepwell(tmp_path)), [60.0] + [1.0] * 239, limit=3)) == 100.0


def test_what_a_slow_step_holds_back_begins_elsewhere(tmp_path: Path) -> None:
    """229 steps of a second beside one of 250: none is left for later, in whose page the slow one may be."""
    (tmp_path / "steps.py").write_text(STEPS)
    kit = started(Stepwell(tmp_path))
    assert seconds(fork(kit, [250.0] + [1.0] * 229, limit=2)) == 250.0
    assert seconds(fork(kit, [1.0] * 120 + [250.0] + [1.0] * 189, limit=2)) == 310.0


def test_four_steps_of_three_seconds_take_three(kit: Stepwell) -> None:
    assert seconds(fork(kit, [3.0] * 4)) == 3.0
    assert seconds(kit.start("gathered", {"naps": [3.0] * 4})) == 3.0


def test_any_is_over_with_the_quickest(kit: Stepwell) -> None:
    run = fork(kit, [3.0, 0.1, 0.2], "policy: any")
    assert seconds(run) == 0.1
    assert [one["n"] for one in _outs(run)] == [1]


def test_the_last_to_end_wins_where_the_last_wins(kit: Stepwell) -> None:
    run = fork(kit, [0.2, 0.3, 0.1], "policy: all, merge: last_wins")
    assert _outs(run) == [{"n": 1}]


def test_the_steps_of_a_dag_begin_when_those_that_they_need_have_ended(kit: Stepwell) -> None:
    kit.define(DAG)
    assert seconds(kit.start("dag")) == 3.0


def test_child_runs_overlap(kit: Stepwell) -> None:
    kit.define(CHILD)
    kit.define(PARENT)
    assert seconds(kit.start("parent")) == 3.0


def test_a_thousand_steps_fifty_at_a_time_take_a_twentieth_of_a_thousand(tmp_path: Path) -> None:
    (tmp_path / "steps.py").write_text(STEPS)
    assert seconds(fork(started(Stepwell(tmp_path)), [0.2] * 1_000, limit=50)) == 4.0


def test_timers_fire_at_their_own_times_while_a_step_takes_its_time(kit: Stepwell) -> None:
    kit.define(RACE)
    assert seconds(kit.start("race")) == 600.0
    assert kit.now.hour == 10  # the step took its hour


def test_a_run_is_out_of_time_before_its_step_is(kit: Stepwell) -> None:
    kit.define("workflow: w\ntimeout: 10m\nnodes: {a: {run: python:steps.nap, input: {seconds: 1200}, timeout: 30m}}")
    run = kit.start("w")
    assert (run.status, kit.now.minute) == ("timed_out", 10)


def test_a_mock_takes_no_longer_than_its_step_may(kit: Stepwell) -> None:
    kit.define("workflow: w\nnodes: {a: {run: python:steps.nap, input: {seconds: 90}, timeout: 1m}}")
    run = kit.start("w")
    assert run.status == "failed"
    assert run.error is not None
    assert run.error["type"] == "step_timeout"
    assert (kit.now.minute, kit.now.second) == (1, 0)


def _outs(run: Run) -> list[Any]:
    out = run.state["out"]
    return out if isinstance(out, list) else [out]
