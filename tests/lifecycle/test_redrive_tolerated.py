"""Redriving functions that caught a failure, or got it as a result, and failed because of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stepwell.runtime.loop.driving import run_now
from stepwell.testing.kit import Stepwell
from tests.lifecycle.shop import FOLDER, Shop
from tests.scenarios.conftest import stepwell

__all__ = ["stepwell"]  # the fixture, over SQLite and AWS
ITEMS = ["a", "b", "c"]
BESIDE = pytest.mark.parametrize("workflow", ["beside", "awaited_later", "told_of", "adjusted"])
WITHIN = pytest.mark.parametrize("workflow", ["within", "within_raised", "within_within"])
BOTH = pytest.mark.parametrize("workflow", ["mapped", "tolerant"])


@pytest.fixture
def memory() -> Iterator[Stepwell]:
    kit = Stepwell(FOLDER)
    yield kit
    kit.close()


@BOTH
def test_of_a_fork_that_tolerates_failures_only_what_failed_runs_again(stepwell: Stepwell, workflow: str) -> None:
    shop = Shop(stepwell, ("fetch", "b"))
    again, calls = shop.mended(shop.fails(workflow, ITEMS))
    assert (again.status, again.result) == ("completed", [f"fetch {item}" for item in ITEMS])
    assert calls == {("fetch", "b"): 1}


@BOTH
def test_it_keeps_its_key_however_often_it_is_redriven(memory: Stepwell, workflow: str) -> None:
    shop = Shop(memory, ("fetch", "b"), ("fetch", "c"))
    first = shop.fails(workflow, ITEMS)
    second = first.redrive()
    assert second.status == "failed"
    shop.broken.discard(("fetch", "c"))
    third = second.redrive()
    assert third.status == "failed"
    again, calls = shop.mended(third)
    assert (again.status, again.result) == ("completed", [f"fetch {item}" for item in ITEMS])
    assert calls == {("fetch", "b"): 1}
    assert len(shop.keys) == 2  # of two steps


def test_a_dry_run_tells_which_branches_run_again_and_what_is_dropped(memory: Stepwell) -> None:
    run = Shop(memory, ("fetch", "b")).fails("tolerant", ITEMS)
    told = run_now(memory.service.redrive_foretold(run.id))
    assert [one["step"] for one in told["again"]] == ["fetch"]
    assert told["dropped"] == [{"token": "0", "step": "tell"}]


def test_a_fork_of_which_nothing_failed_is_kept_whole(memory: Stepwell) -> None:
    shop = Shop(memory, ("tell", "some"))
    again, calls = shop.mended(shop.fails("noted", ITEMS))
    assert (again.status, calls) == ("completed", {("tell", "some"): 1})


def test_an_error_group_that_is_raised_again_later_names_what_failed(stepwell: Stepwell) -> None:
    shop = Shop(stepwell, ("store", "fetch a"))
    again, calls = shop.mended(shop.fails("regretted", ["a"]))
    assert (again.status, again.result) == ("completed", ["store fetch a"])
    assert calls == {("store", "fetch a"): 1}


@BESIDE
def test_of_a_fork_beside_other_operations_only_what_failed_runs_again(stepwell: Stepwell, workflow: str) -> None:
    shop = Shop(stepwell, ("fetch", "b"))
    run = stepwell.start(workflow, {"items": ITEMS})
    stepwell.advance("2m")
    assert run.status == "failed"
    again, calls = shop.mended(run)
    assert (again.status, again.result) == ("completed", [f"fetch {item}" for item in ITEMS])
    assert calls == {("fetch", "b"): 1}


@BESIDE
def test_beside_other_operations_it_keeps_its_key_however_often_it_is_redriven(memory: Stepwell, workflow: str) -> None:
    shop = Shop(memory, ("fetch", "b"), ("fetch", "c"))
    run = memory.start(workflow, {"items": ITEMS})
    memory.advance("2m")
    second = run.redrive()
    assert second.status == "failed"
    shop.broken.discard(("fetch", "c"))
    third = second.redrive()
    assert third.status == "failed"
    again, calls = shop.mended(third)
    assert (again.status, again.result) == ("completed", [f"fetch {item}" for item in ITEMS])
    assert calls == {("fetch", "b"): 1}
    assert len(shop.keys) == 2  # of two steps


def test_a_fork_that_tolerated_failures_and_a_step_that_failed_beside_it_both_go_on(memory: Stepwell) -> None:
    shop = Shop(memory, ("fetch", "b"), ("tell", "all"))
    again, calls = shop.mended(shop.fails("both_broken", ITEMS))
    assert (again.status, again.result) == ("completed", [*(f"fetch {item}" for item in ITEMS), "tell all"])
    assert calls == {("fetch", "b"): 1, ("tell", "all"): 1}


def test_what_followed_from_a_failure_that_was_tolerated_is_not_done_twice(memory: Stepwell) -> None:
    shop = Shop(memory, ("fetch", "b"), ("tell", "all"))
    again, calls = shop.mended(shop.fails("made_do", ITEMS))
    assert (again.status, again.result) == ("completed", ["store 2 of 3", "tell all"])
    assert calls == {("tell", "all"): 1}


def test_a_dry_run_tells_which_branches_beside_other_operations_run_again(memory: Stepwell) -> None:
    run = Shop(memory, ("fetch", "b")).fails("told_of", ITEMS)
    told = run_now(memory.service.redrive_foretold(run.id))
    assert {"token": "0/0.0/2.1", "step": "fetch"} in told["again"]
    assert {"token": "0/0.1", "step": "tell"} in told["kept"]
    assert told["dropped"] == [{"token": "0", "step": "tell"}]


@WITHIN
def test_of_a_fork_in_a_fork_only_what_failed_runs_again(stepwell: Stepwell, workflow: str) -> None:
    """It was judged by the outer results, of which none had failed: the redrive kept all, and failed again."""
    shop = Shop(stepwell, ("fetch", "b"))
    again, calls = shop.mended(shop.fails(workflow, ITEMS))
    assert (again.status, again.result) == ("completed", [f"fetch {item}" for item in ITEMS])
    assert calls == {("fetch", "b"): 1}


@WITHIN
def test_in_a_fork_in_a_fork_it_keeps_its_key_however_often_it_is_redriven(memory: Stepwell, workflow: str) -> None:
    shop = Shop(memory, ("fetch", "b"), ("fetch", "c"))
    second = shop.fails(workflow, ITEMS).redrive()
    assert second.status == "failed"
    shop.broken.discard(("fetch", "c"))
    third = second.redrive()
    assert third.status == "failed"
    again, calls = shop.mended(third)
    assert (again.status, again.result) == ("completed", [f"fetch {item}" for item in ITEMS])
    assert calls == {("fetch", "b"): 1}
    assert len(shop.keys) == 2  # of two steps


def test_a_branch_that_failed_and_what_a_fork_beside_it_tolerated_both_go_on(stepwell: Stepwell) -> None:
    shop = Shop(stepwell, ("fetch", "b"), ("store", "all"))
    again, calls = shop.mended(shop.fails("within_broken", ITEMS))
    assert (again.status, again.result) == ("completed", [*(f"fetch {item}" for item in ITEMS), "store all"])
    assert calls == {("fetch", "b"): 1, ("store", "all"): 1}


def test_what_followed_from_a_failure_in_a_fork_in_a_fork_is_not_done_twice(memory: Stepwell) -> None:
    shop = Shop(memory, ("fetch", "b"), ("tell", "all"))
    again, calls = shop.mended(shop.fails("within_used", ITEMS))
    assert (again.status, again.result) == ("completed", ["store 2 of 3", "tell all"])
    assert calls == {("tell", "all"): 1}


@pytest.mark.parametrize("at_once", [1, 2, 3])
def test_items_that_began_after_another_had_failed_are_kept(stepwell: Stepwell, at_once: int) -> None:
    """They were taken for what followed from the failure, and done twice."""
    shop = Shop(stepwell, ("fetch", "b"))
    run = stepwell.start("few_at_once", {"items": ["b", "a", "c", "d"], "at_once": at_once})
    stepwell.advance("1h")
    assert run.status == "failed"
    again, calls = shop.mended(run)
    assert (again.status, again.result) == ("completed", [f"store fetch {item}" for item in "bacd"])
    assert calls == {("fetch", "b"): 1, ("store", "fetch b"): 1}


@pytest.mark.parametrize("at_once", [1, 2, 3])
def test_all_items_that_failed_run_again_if_the_function_raises_an_error_of_its_own(
    memory: Stepwell, at_once: int
) -> None:
    shop = Shop(memory, ("fetch", "b"), ("store", "fetch c"))
    run = memory.start("few_at_once", {"items": [*"abcde"], "at_once": at_once})
    memory.advance("1h")
    assert run.status == "failed"
    again, calls = shop.mended(run)
    assert (again.status, again.result) == ("completed", [f"store fetch {item}" for item in "abcde"])
    assert calls.keys() >= {("fetch", "b"), ("store", "fetch b"), ("store", "fetch c")}
    kept = {call for item in "ade" for call in (("fetch", item), ("store", f"fetch {item}"))}
    assert not calls.keys() & kept


THROTTLED = """from stepwell import workflow

def fetch(item):
    if item == "b":
        raise ValueError(item)

@workflow
async def flow(ctx):
    async with ctx.limit("bank"):
        await ctx.map(fetch, ["a", "b"])
"""


def test_a_dry_run_names_the_step_of_a_throttled_branch(tmp_path: Path) -> None:
    """It had the name of the function, since what is kept of the branch is its wait for a permit."""
    (tmp_path / "shop.py").write_text(THROTTLED)
    (tmp_path / "limits.yaml").write_text("limits: {bank: {concurrency: 1}}")
    kit = Stepwell(tmp_path)
    run = kit.start("flow")
    assert run.status == "failed"
    told = run_now(kit.service.redrive_foretold(run.id))
    assert [one["step"] for one in told["again"]] == ["fetch"]
    kit.close()
