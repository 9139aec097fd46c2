"""The id of a deleted run is refused while a worker may outlive the run. Then it is free, and the next run its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepwell.errors import RunDeleted
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.starts.starting import Signal, Start
from stepwell.testing.kit import Run, Stepwell

SHOP = """
workflow: shop
nodes:
  fork: {fan_out: all, transitions: [{to: work, foreach: "{{ input.names }}", as: name}]}
  work: {run: python:m.work, input: {name: "{{ branch.item }}", who: "{{ input.who }}"}, transitions: [{to: join}]}
  join: {fan_in: {policy: all}}
"""
DAG = """
workflow: dag
steps:
  - {name: a, run: python:m.work, input: {name: a, who: "{{ input.who }}"}}
  - {name: b, run: python:m.work, input: {name: b, who: "{{ input.who }}"}, depends_on: [a]}
"""
NAP = """
workflow: nap
nodes:
  nap: {sleep: "{{ input.nap }}", transitions: [{to: done}]}
  done: {run: python:m.done}
"""
SLOW = "workflow: slow\ntimeout: 3d\nnodes: {nap: {sleep: 30d}}"
WAITS = "workflow: waits\nnodes: {paid: {wait: {for: event, name: paid}}}"
GREETING = """
from stepwell import step, workflow

@step
def greet(name):
    return "hello " + name

@workflow
async def greeting(ctx, name):
    name = await ctx.step(greet, name)
    await ctx.sleep("1h")
    return await ctx.step(greet, name)
"""


def kit_of(tmp_path: Path, *texts: str) -> Stepwell:
    kit = Stepwell(tmp_path)
    for text in texts:
        kit.define(text)
    return kit


def delete(kit: Stepwell, run: Run, *, force: bool = False) -> None:
    run_now(kit._parts.eraser.delete(run.id, force=force))


@pytest.mark.parametrize("named", [{"run_id": "order-1"}, {"key": "order-1"}], ids=["run_id", "key"])
def test_it_is_refused_at_once_and_free_after_an_hour(tmp_path: Path, named: dict[str, str]) -> None:
    kit = kit_of(tmp_path, NAP)
    kit.mock("done", returns=1)
    first = kit.start("nap", {"nap": "1m"}, **named)
    delete(kit, first, force=True)
    for _ in range(2):
        with pytest.raises(RunDeleted, match=f"run {first.id} was deleted a moment ago: its id is free from 2"):
            kit.start("nap", {"nap": "1m"}, **named)
        kit.advance("59m")
    kit.advance("2m")
    second = kit.start("nap", {"nap": "1m"}, **named)
    assert (second.id, second.status) == (first.id, "waiting")


def test_an_event_that_came_with_a_refused_start_is_not_kept(tmp_path: Path) -> None:
    kit = kit_of(tmp_path, WAITS)
    start = Start("waits", run_id="order-1", event=Signal("paid", {"who": "ana"}))
    run_now(kit.service.start(start))
    kit.settle()
    run_now(kit._parts.eraser.delete("order-1"))
    with pytest.raises(RunDeleted):
        run_now(kit.service.start(start))
    kit.advance("1h")
    second = kit.start("waits", run_id="order-1")
    assert second.status == "waiting"


@pytest.mark.parametrize(("workflow", "count"), [("shop", 2), ("dag", 2)])
def test_its_branches_read_its_own_input(tmp_path: Path, workflow: str, count: int) -> None:
    kit = kit_of(tmp_path, SHOP, DAG)
    work = kit.mock("work", returns=1)
    first = kit.start(workflow, {"who": "ana", "names": ["a"]}, run_id="order-1")
    assert first.status == "completed"
    delete(kit, first)
    kit.advance("1h")
    second = kit.start(workflow, {"who": "ben", "names": ["a", "b"]}, run_id="order-1")
    assert second.status == "completed"
    assert [call for call in work.calls if call["who"] == "ben"] == [
        {"name": name, "who": "ben"} for name in ("a", "b")[:count]
    ]


def test_its_timer_fires_at_its_own_time(tmp_path: Path) -> None:
    """That of the deleted run is still set."""
    kit = kit_of(tmp_path, NAP)
    kit.mock("done", returns=1)
    first = kit.start("nap", {"nap": "30d"}, run_id="order-1")
    delete(kit, first, force=True)
    kit.advance("1h")
    second = kit.start("nap", {"nap": "1d"}, run_id="order-1")
    kit.advance("1439m")
    assert second.status == "waiting"
    kit.advance("2m")
    assert second.status == "completed"


def test_its_time_limit_is_its_own(tmp_path: Path) -> None:
    kit = kit_of(tmp_path, SLOW)
    first = kit.start("slow", run_id="order-1")
    kit.advance("2d")
    delete(kit, first, force=True)
    kit.advance("1h")
    second = kit.start("slow", run_id="order-1")
    kit.advance("71h")
    assert second.status == "waiting"
    kit.advance("2h")
    assert second.status == "timed_out"


def test_its_function_begins_anew(tmp_path: Path) -> None:
    (tmp_path / "flows.py").write_text(GREETING)
    kit = Stepwell(tmp_path)
    delete(kit, kit.start("greeting", "ana", run_id="order-1"), force=True)
    kit.advance("1h")
    second = kit.start("greeting", "ben", run_id="order-1")
    kit.advance("61m")
    assert second.result == "hello hello ben"
