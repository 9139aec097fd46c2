"""Redriving functions that caught a failure, or got it as a result, and failed because of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from stepwell.runtime.loop.driving import run_now
from stepwell.testing.kit import Stepwell
from tests.lifecycle.shop import FOLDER, Shop
from tests.scenarios.conftest import stepwell

__all__ = ["stepwell"]  # the fixture, over SQLite and AWS
ITEMS = ["a", "b", "c"]
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
