"""Redriving runs with wide forks: what is kept is written many at once, and moves only when all of it is there."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stepwell.definition.graph import Limit
from stepwell.errors import Conflict, PortError
from stepwell.runtime.calls.run_forks import RunFork
from stepwell.runtime.loop.driving import run_now
from stepwell.testing.kit import Stepwell
from stepwell.testing.runs import Run
from tests.engine.golden_logs import WORKFLOWS
from tests.scenarios.conftest import on_sqlite

FLOW = """
workflow: flow
nodes:
  begin: {run: python:golden.note, transitions: [{to: pick, foreach: "{{ input.items }}", max_concurrency: 20}]}
  pick: {run: python:golden.note, throttle: shop, input: "{{ state.item }}", transitions: [{to: join}]}
  join: {fan_in: {merge: append}, transitions: [{to: ship}]}
  ship: {run: python:golden.note}
"""
PICKED_RECORDS = 3  # of a branch whose throttled step completed: it waited for its permit, and got it
ROOT_RECORDS = 3  # before the step that failed: the step before the fork, its join, and the way on


class Shop:
    """Runs over a throttled fork, on a disk, where a redrive writes in threads. Some items fail until it is mended."""

    def __init__(self, kit: Stepwell) -> None:
        self.kit, self.items, self.torn, self.is_torn = kit, list(range(40)), set[int](), False
        kit._parts.catalog.limits = {"shop": Limit(1_000)}
        kit.define(FLOW)
        kit.mock("begin", returns={})
        self.picked = kit.mock("pick", returns=self._pick)
        self.shipped = kit.mock("ship", returns=self._ship)
        kit.service._redriver._at_once = 8

    def _pick(self, item: int) -> int:
        if item in self.torn:
            raise ValueError("torn")
        return item * item

    def _ship(self, _: object) -> str:
        if self.is_torn:
            raise ValueError("torn")
        return "shipped"

    def failed_behind_the_fork(self) -> Run:
        self.is_torn = True
        return self._failed()

    def failed_in_the_fork(self, *items: int) -> Run:
        self.torn |= set(items)
        return self._failed()

    def _failed(self) -> Run:
        run = self.kit.start("flow", {"items": self.items})
        assert run.status == "failed"
        self.torn, self.is_torn = set(), False
        return run

    def is_shipped(self, run: Run) -> None:
        """Each item was picked, and the run has all results."""
        assert (run.status, run.result) == ("completed", "shipped")
        assert [one["pick"] for one in run.state["join"]] == [item * item for item in self.items]


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    with on_sqlite(tmp_path) as backend:
        yield Shop(Stepwell(WORKFLOWS, backend))


def test_a_run_that_failed_behind_a_wide_fork_goes_on_with_the_results_of_all_branches(shop: Shop) -> None:
    run = shop.failed_behind_the_fork()
    told = run_now(shop.kit.service.redrive_foretold(run.id))
    assert told["kept_records"] == PICKED_RECORDS * len(shop.items) + ROOT_RECORDS
    again = run.redrive()
    shop.is_shipped(again)
    assert Counter(shop.picked.calls) == dict.fromkeys(shop.items, 1)


@pytest.mark.slow
def test_a_run_that_failed_behind_a_fork_of_two_thousand_goes_on(shop: Shop) -> None:
    shop.items = list(range(2_000))
    shop.is_shipped(shop.failed_behind_the_fork().redrive())
    assert Counter(shop.picked.calls) == dict.fromkeys(shop.items, 1)


def test_the_branches_that_a_wide_fork_keeps_have_arrived_once_and_the_others_go_on(shop: Shop) -> None:
    shop.items = list(range(210))
    run = shop.failed_in_the_fork(*range(150, 190))
    ended = {one["index"] for one in run.branches("0/0") if one["status"] == "completed"}  # not all that were called
    before = Counter(shop.picked.calls)
    shop.is_shipped(run.redrive())
    assert len(ended) > 100  # a page of the join
    assert Counter(shop.picked.calls) - before == dict.fromkeys(set(shop.items) - ended, 1)


def test_a_run_that_has_joined_shows_the_branches_of_its_last_fork(shop: Shop) -> None:
    """Of a redriven run, those of the fork that it reopened."""
    run = shop.failed_in_the_fork(3)
    assert Counter(one["status"] for one in run.branches())["failed"] == 1
    assert {one["status"] for one in run.redrive().branches()} == {"completed"}


def test_a_fork_of_a_run_keeps_its_wide_fork_too(shop: Shop) -> None:
    again = shop.failed_behind_the_fork().fork(3)
    shop.is_shipped(again)
    assert Counter(shop.picked.calls) == dict.fromkeys(shop.items, 1)


@pytest.mark.parametrize("is_done", [False, True], ids=["before it", "after it"])
@pytest.mark.parametrize("at", [1, 30, 100])
def test_whoever_dies_amid_the_copy_leaves_nothing_that_moves_and_a_second_call_copies_the_rest(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, at: int, is_done: bool
) -> None:
    run = shop.failed_behind_the_fork()
    store: Any = shop.kit.service.ports.log
    append, counting, count = store.append, threading.Lock(), 0

    async def dies(*args: Any, **named: Any) -> Any:
        nonlocal count
        with counting:
            count += 1
            dead = count >= at
        if dead and not is_done:
            raise PortError("away")
        made = await append(*args, **named)
        if dead:
            raise PortError("no answer")
        return made

    with monkeypatch.context() as broken:
        broken.setattr(store, "append", dies)
        with pytest.raises(PortError):
            run.redrive()
    shop.kit.settle()
    assert len(shop.picked.calls) == len(shop.items)
    shop.is_shipped(run.redrive())
    assert Counter(shop.picked.calls) == dict.fromkeys(shop.items, 1)


def test_two_calls_at_once_make_one_run(shop: Shop) -> None:
    run = shop.failed_behind_the_fork()
    made, start = list[str](), threading.Barrier(2)

    def redrive() -> None:
        start.wait()
        made.append(run_now(shop.kit.service.redrive(run.id)).header.run_id)

    callers = [threading.Thread(target=redrive) for _ in range(2)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert len(made) == 2
    assert len(set(made)) == 1
    shop.is_shipped(Run(shop.kit, made[0]))
    assert Counter(shop.picked.calls) == dict.fromkeys(shop.items, 1)


def test_a_late_repeat_of_the_copy_changes_nothing_of_what_has_moved_on(shop: Shop) -> None:
    """It wrote before the other call did, so it thinks."""
    run = shop.failed_behind_the_fork()
    redriver, ports = shop.kit.service._redriver, shop.kit.service.ports
    header = run_now(shop.kit.service.header(run.id))
    _, plan, _ = run_now(redriver._plan(header, None, "", ""))
    again = run.redrive()
    shop.is_shipped(again)
    before = run_now(ports.log.read_log(again.id, "0"))
    run_now(redriver.copy(again.id, plan))
    assert run_now(ports.log.read_log(again.id, "0")) == before


@pytest.mark.parametrize("spare", [0, -1])
def test_a_dry_run_tells_of_too_many_records_as_the_call_does(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, spare: int
) -> None:
    run = shop.failed_behind_the_fork()
    kept = PICKED_RECORDS * len(shop.items) + ROOT_RECORDS
    monkeypatch.setattr("stepwell.runtime.calls.keeping.REDRIVE_WRITES", kept + spare)
    header = run_now(shop.kit.service.header(run.id))
    asked = RunFork(3)
    if spare < 0:
        for call in (
            shop.kit.service.redrive_foretold(run.id),
            shop.kit.service.redrive(run.id),
            shop.kit.service.forker.foretold(header, asked),
            shop.kit.service.forker.fork(header, asked),
        ):
            with pytest.raises(Conflict) as refused:
                run_now(call)
            assert refused.value.code == "log_too_long"
        return
    assert run_now(shop.kit.service.forker.foretold(header, asked))["stops_at"] == "ship"
    shop.is_shipped(run.redrive())
