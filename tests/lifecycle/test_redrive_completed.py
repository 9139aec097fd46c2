"""A completed run is not redriven. If branches of it failed, the refusal says where they can run again."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from stepwell.errors import Conflict
from stepwell.runtime.calls.run_forks import RunFork
from stepwell.runtime.loop.driving import run_now
from stepwell.testing.kit import Run, Stepwell
from tests.lifecycle.shop import Shop as Calls
from tests.lifecycle.test_redrive_forks import Shop, flow

TOLERANT = flow(**{"{fan_in: {merge: append}": "{fan_in: {merge: append, tolerate: {count: 2}}"})
CODE = """
from stepwell import workflow

def fetch(item: str):
    return item

def tell(item: str):
    return item

@workflow
async def mapped(ctx, items: list[str]):
    await ctx.step(tell, "begun")
    found = await ctx.map(fetch, items, tolerate={"count": 2}, name="fetches")
    return [one for one in found if isinstance(one, str)]

@workflow
async def updated(ctx, items: list[str]):
    ctx.update("add", lambda item: None)
    await ctx.step(tell, "begun")
    found = await ctx.map(fetch, items, return_exceptions=True)
    return [one for one in found if isinstance(one, str)]

@workflow
async def caught(ctx, items: list[str]):
    try:
        await ctx.step(fetch, items[0])
    except Exception:
        return []
"""


def refused(shop: Shop) -> Conflict:
    with pytest.raises(Conflict) as refusal:
        run_now(shop.world.service.redrive(shop.run_id))
    assert refusal.value.code == "completed"
    return refusal.value


def test_a_run_whose_fork_tolerated_failures_says_so_and_from_where_its_branches_run_again() -> None:
    shop = Shop(TOLERANT, ("pack", 1), ("pack", 2))
    refusal = refused(shop)
    assert refusal.message == "the run completed: 2 branches of begin failed, and they were tolerated"
    assert refusal.hint == (
        'POST /runs/{id}/fork with "at": 0 runs begin and all its branches again; rerun starts it anew'
    )


def test_one_branch_that_failed_is_one() -> None:
    shop = Shop(TOLERANT, ("pack", 1))
    assert refused(shop).message == "the run completed: 1 branch of begin failed, and it was tolerated"


def test_a_run_that_held_a_lock_at_its_fork_is_not_led_to_a_fork_that_would_be_refused() -> None:
    shop = Shop(TOLERANT.replace("workflow: flow", "workflow: flow\nlock: till"), ("pack", 1))
    assert refused(shop).hint == "rerun starts it anew"


def test_a_run_of_which_nothing_failed_is_refused_without_a_word_of_branches() -> None:
    shop = Shop(TOLERANT)
    assert refused(shop).message == "the run completed: nothing is left to go on from"


def function(folder: Path, name: str) -> tuple[Calls, Run]:
    """A function that has completed although the fetch of `b` failed."""
    (folder / "flows.py").write_text(CODE)
    kit = Stepwell(folder)
    calls = Calls(kit, ("fetch", "b"), ("fetches", "b"))
    run = kit.start(name, {"items": ["b"] if name == "caught" else ["a", "b"]})
    assert run.status == "completed"
    return calls, run


@pytest.mark.parametrize(("name", "fork"), [("mapped", "fetches"), ("updated", "fetch")])
def test_the_fork_of_a_function_that_its_refused_redrive_names_runs_the_branches_again(
    tmp_path: Path, name: str, fork: str
) -> None:
    calls, run = function(tmp_path, name)
    with pytest.raises(Conflict, match=f"1 branch of {fork} failed, and it was tolerated") as refusal:
        run.redrive()
    named = re.match(r'POST /runs/{id}/fork with "at": (\d+) runs', refusal.value.hint or "")
    assert named is not None
    calls.broken.clear()
    calls.calls.clear()
    again = run.fork(int(named[1]))
    assert (again.status, again.result) == ("completed", [f"{fork} a", f"{fork} b"])
    assert sorted(calls.calls) == [(fork, "a"), (fork, "b")]


def test_a_failure_that_the_function_caught_itself_is_none_of_a_branch(tmp_path: Path) -> None:
    _, run = function(tmp_path, "caught")
    with pytest.raises(Conflict, match="the run completed: nothing is left to go on from"):
        run.redrive()


def test_the_fork_of_a_run_that_its_refused_redrive_names_runs_the_branches_again() -> None:
    shop = Shop(TOLERANT, ("pack", 1))
    assert '"at": 0 ' in str(refused(shop).hint)
    at = run_now(shop.world.service.header(shop.run_id))
    again = run_now(shop.world.service.forker.fork(at, RunFork(0))).header.run_id
    shop.world.pass_time(600_000)
    assert shop.world.header(again).status == "completed"
    assert shop.nodes(again).count("pack") == 3
