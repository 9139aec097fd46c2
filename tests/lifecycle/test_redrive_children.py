"""A redriven or forked run shows the child runs that it kept: they are those of the run that started them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stepwell.testing.kit import Run, Stepwell

ORDER = """
workflow: order
timeline:
  - {name: enrich, run: "workflow:enrich"}
  - {name: ship, run: "python:shop.ship"}
  - {name: tell, run: "python:shop.tell"}
"""
ENRICH = """
workflow: enrich
timeline: [{name: look, run: "python:shop.look"}]
"""
FORKED = """
workflow: forked
nodes:
  begin: {transitions: [{to: ask, foreach: "{{ [1, 2] }}"}]}
  ask: {run: "workflow:enrich", transitions: [{to: ship}]}
  ship: {run: "python:shop.ship", input: "{{ state.item }}", transitions: [{to: all_in}]}
  all_in: {fan_in: {policy: all}}
"""
SHOP = """
import asyncio

from stepwell import step, workflow

@step
def ship() -> str:
    return "shipped"

@step
def tell() -> str:
    return "told"

def look() -> str:
    return "looked"

@workflow
async def caller(ctx):
    await ctx.child("enrich", {})
    await ctx.step(ship)

@workflow
async def beside(ctx):
    async def later():
        await ctx.sleep("1h")
        await ctx.step(ship)

    await asyncio.gather(ctx.child("enrich", {}), later())

@workflow
async def sends(ctx):
    await ctx.child("enrich", {}, detached=True)
    await ctx.step(ship)
    await ctx.step(tell)
"""


@pytest.fixture
def kit(tmp_path: Path) -> Iterator[Stepwell]:
    for name, text in (("order.yaml", ORDER), ("enrich.yaml", ENRICH), ("forked.yaml", FORKED), ("shop.py", SHOP)):
        (tmp_path / name).write_text(text)
    made = Stepwell(tmp_path)
    yield made
    made.close()


def shown(run: Run) -> list[tuple[str, str | None]]:
    return [(one["run_id"], one["status"]) for one in run.view["children"]]


def told(run: Run) -> list[Any]:
    return [one["run_id"] for entry in run.history if entry["type"] == "children.started"
            for one in entry["data"]["children"]]  # fmt: skip


def test_a_kept_child_is_the_failed_runs(kit: Stepwell) -> None:
    """In the view and in the history, and after a second redrive too."""
    kit.mock("ship", raises=ValueError("no carrier"), times=1)
    kit.mock("tell", raises=ValueError("no line"), times=1)
    failed = kit.start("order", {})
    kept = shown(failed)
    again = failed.redrive()
    third = again.redrive()
    assert [one.status for one in (failed, again, third)] == ["failed", "failed", "completed"]
    assert [status for _, status in kept] == ["completed"]
    assert shown(again) == shown(third) == kept
    assert told(again) == told(third) == told(failed)


def test_a_child_that_starts_anew_is_the_new_runs(kit: Stepwell) -> None:
    kit.mock("look", raises=ValueError("dark"), times=1)
    failed = kit.start("order", {})
    again = failed.redrive()
    assert (failed.status, again.status) == ("failed", "completed")
    assert [status for _, status in shown(again)] == ["completed"]
    assert shown(again)[0][0] != shown(failed)[0][0]


def test_a_branch_keeps_its_child(kit: Stepwell) -> None:
    """One that goes on, and one that is kept whole; what was kept twice is the first run's."""
    calls: list[Any] = []

    def ship(item: Any) -> str:
        calls.append(item)
        if calls.count(2) in (1, 2) and item == 2:  # in two runs
            raise ValueError("no carrier")
        return "shipped"

    kit.mock("ship", returns=ship)
    failed = kit.start("forked", {})
    again = failed.redrive()
    third = again.redrive()
    assert [one.status for one in (failed, again, third)] == ["failed", "failed", "completed"]
    first, second, last = (
        [(child["run_id"], child["status"]) for branch in run.branches(fork) for child in branch["children"]]
        for run, fork in ((failed, "0/0"), (again, "0/2"), (third, "0/2"))
    )
    assert calls == [1, 2, 2, 2]
    assert first == second == last
    assert [status for _, status in first] == ["completed", "completed"]
    assert sorted(told(third)) == sorted(told(failed))


@pytest.mark.parametrize("workflow", ["caller", "beside"])
def test_a_function_keeps_its_child(kit: Stepwell, workflow: str) -> None:
    kit.mock("ship", raises=ValueError("no carrier"), times=1)
    failed = kit.start(workflow, {})
    kit.advance("2h")
    again = failed.redrive()
    kit.advance("2h")
    assert (failed.status, again.status) == ("failed", "completed")
    assert [status for _, status in shown(failed)] == ["completed"]
    assert shown(again) == shown(failed)


def test_a_fork_of_a_run_shows_the_child_that_it_kept(kit: Stepwell) -> None:
    run = kit.start("order", {})
    forked = run.fork(at=next(int(one["id"].split("@")[1][0]) for one in run.history if one["step"] == "tell"))
    assert (run.status, forked.status) == ("completed", "completed")
    assert shown(forked) == shown(run)
    assert [status for _, status in shown(forked)] == ["completed"]


def test_a_function_keeps_its_detached_child(kit: Stepwell) -> None:
    """After several redrives too, and in a fork of the last."""
    kit.mock("ship", raises=ValueError("no carrier"), times=2)
    kit.mock("tell", raises=ValueError("no line"), times=1)
    runs = [kit.start("sends", {})]
    for _ in range(3):
        kit.advance("1m")
        runs.append(runs[-1].redrive())
    runs.append(runs[-1].fork(at=1))
    kit.advance("1m")
    assert [run.status for run in runs] == ["failed", "failed", "failed", "completed", "completed"]
    ((child, status),) = shown(runs[0])
    assert status == "completed"
    assert [shown(run) for run in runs] == [[(child, status)]] * 5
    assert all(one["detached"] for run in runs for one in run.view["children"])
