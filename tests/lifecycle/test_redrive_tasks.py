"""Redriving functions amid their tasks: operations that completed are kept, those that failed or were open go on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from stepwell.runtime.loop.driving import run_now
from stepwell.testing.kit import Run, Stepwell
from tests.durable.dying import deaths
from tests.lifecycle.shop import FOLDER, Shop
from tests.scenarios.conftest import stepwell

__all__ = ["stepwell"]  # the fixture, over SQLite and AWS; there the ledger agrees with what AWS counted
ITEMS = ["a", "b", "c"]


@pytest.fixture
def memory() -> Iterator[Stepwell]:
    kit = Stepwell(FOLDER)
    yield kit
    kit.close()


def test_of_gathered_tasks_only_what_did_not_complete_runs_again(stepwell: Stepwell) -> None:
    shop = Shop(stepwell, ("fetch", "c"))
    again, calls = shop.mended(shop.fails("gathered", ITEMS))
    assert again.status == "completed"
    assert again.result == ["tell begun", [*(f"store fetch {item}" for item in ITEMS), None]]
    assert calls == {("fetch", "c"): 1, ("store", "fetch c"): 1} | dict.fromkeys(calls, 1)
    assert not {("tell", "begun"), ("fetch", "a"), ("fetch", "b")} & calls.keys()


def test_a_group_goes_on_with_what_failed_and_what_that_cancelled(stepwell: Stepwell) -> None:
    shop = Shop(stepwell, ("store", "fetch b"))
    again, calls = shop.mended(shop.fails("grouped", ITEMS))
    assert (again.status, again.result) == ("completed", [f"store fetch {item}" for item in ITEMS])
    assert ("fetch", "b") not in calls
    assert ("fetch", "a") not in calls
    assert calls["store", "fetch b"] == 1


def test_what_failed_runs_again_also_where_the_function_raised_an_error_of_its_own(stepwell: Stepwell) -> None:
    shop = Shop(stepwell, ("store", "fetch b"))
    again, calls = shop.mended(shop.fails("collected", ITEMS))
    assert (again.status, again.result) == ("completed", [f"store fetch {item}" for item in ITEMS])
    assert calls["store", "fetch b"] == 1
    assert not {("fetch", item) for item in ITEMS} & calls.keys()


def test_a_fork_beside_an_operation_is_opened_again_for_what_is_left(stepwell: Stepwell) -> None:
    shop = Shop(stepwell, ("fetch", "b"))
    again, calls = shop.mended(shop.fails("forked", ITEMS))
    assert (again.status, again.result) == ("completed", [[f"fetch {item}" for item in ITEMS], "tell all"])
    assert calls["fetch", "b"] == 1
    assert ("fetch", "a") not in calls


def test_waits_go_on_and_what_they_got_is_kept(stepwell: Stepwell) -> None:
    shop = Shop(stepwell, ("tell", "all"))
    run = stepwell.start("waiting", {"items": ["paid", "sent"]})
    stepwell.event("paid", 7)
    stepwell.advance("2m")
    assert run.status == "failed"
    again, calls = shop.mended(run)
    assert (again.status, calls) == ("waiting", {("tell", "all"): 1})
    stepwell.event("sent", 8)
    assert again.status == "completed"
    assert again.result[0] == "tell all"


def test_a_run_that_was_terminated_amid_its_tasks_goes_on(memory: Stepwell) -> None:
    shop = Shop(memory)
    run = memory.start("waiting", {"items": ["paid", "sent"]})
    memory.event("paid", 7)
    run.terminate()
    again, calls = shop.mended(run)
    assert (again.status, calls) == ("waiting", {("tell", "all"): 1})
    memory.event("sent", 8)
    assert again.status == "completed"


def test_an_operation_keeps_its_key_however_often_it_is_redriven(memory: Stepwell) -> None:
    shop = Shop(memory, ("fetch", "b"))
    first = shop.fails("gathered", ITEMS)
    second = first.redrive()
    assert second.status == "failed"
    third, _ = shop.mended(second)
    assert third.status == "completed"
    assert shop.keys == {f"{first.id}:0/1.1:0"}


def test_a_dry_run_tells_what_is_kept_and_what_runs_again_and_writes_nothing(memory: Stepwell) -> None:
    shop = Shop(memory, ("fetch", "b"))
    run = shop.fails("gathered", ITEMS)
    told = run_now(memory.service.redrive_foretold(run.id))
    assert told["kept"] == [{"token": "0", "step": "tell"}, {"token": "0/1.0", "step": "fetch"}]
    again = {"0/1.1": "fetch", "0/1.2": "fetch", "0/1.3": "sleep", "0/3.0": "store"}  # the last had begun, no more
    assert {one["token"]: one["step"] for one in told["again"]} == again
    assert len(memory.runs("gathered")) == 1


def test_a_dry_run_from_an_operation_of_the_tasks_names_it_and_the_others_that_are_open(memory: Stepwell) -> None:
    shop = Shop(memory, ("fetch", "b"))
    run = shop.fails("gathered", ITEMS)
    told = run_now(memory.service.redrive_foretold(run.id, "store"))
    assert {"token": "0", "step": "store"} in told["again"]
    assert {"token": "0/1.3", "step": "sleep"} in told["again"]


def test_what_completed_and_was_never_heard_of_is_told_to_the_new_run(memory: Stepwell) -> None:
    """A run that waits for code hears of no end; what has ended is in the branches alone."""
    shop = Shop(memory, ("fetch", "a"))
    run = shop.fails("gathered", ITEMS)
    again, _ = shop.mended(run)
    heard = [entry for entry in again.history if entry["type"] == "branch.redriven"]
    assert again.status == "completed"
    assert heard


@pytest.mark.parametrize("workflow", ["gathered", "grouped", "collected", "pooled", "forked", "mapped"])
def test_whoever_dies_at_whichever_call_the_run_goes_on_once(workflow: str) -> None:
    """The redrive and all that follows it: no operation that had completed before is called again."""
    played: dict[int, tuple[Run, Shop, list[tuple[str, str]]]] = {}

    def make() -> Stepwell:
        kit = Stepwell(FOLDER)
        shop = Shop(kit, ("fetch", "b"))
        run = shop.fails(workflow, ITEMS)
        shop.broken.clear()
        done = [call for call in shop.calls if call != ("fetch", "b")]
        shop.calls.clear()
        played[id(kit)] = run, shop, done
        return kit

    def play(kit: Stepwell) -> None:
        played[id(kit)][0].redrive()

    count = 0
    for kit in deaths(make, play, each=3):
        run, shop, done = played[id(kit)]
        again = run.redrive()
        kit.advance("2h")
        assert again.status == "completed"
        assert not {*done} & {*shop.calls}
        count += 1
        kit.close()
    assert count > 8


def test_from_an_operation_of_the_tasks_it_and_what_began_with_it_or_later_run_again(memory: Stepwell) -> None:
    shop = Shop(memory, ("store", "fetch b"))
    run = shop.fails("gathered", ITEMS)
    shop.broken.clear()
    shop.calls.clear()
    again = run.redrive(since="fetch")
    memory.advance("2h")
    assert again.status == "completed"
    assert Counter(shop.calls) == Counter(
        call for item in ITEMS for call in (("fetch", item), ("store", f"fetch {item}"))
    )


def test_a_fork_of_a_run_amid_its_tasks_begins_what_was_under_way_and_disturbs_nothing(stepwell: Stepwell) -> None:
    shop = Shop(stepwell)
    run = stepwell.start("waiting", {"items": ["paid", "sent"]})
    stepwell.event("paid", 7)
    assert run.status == "waiting"
    again = run.fork(2)
    stepwell.advance("2m")
    assert Counter(shop.calls) == {("tell", "all"): 2}
    stepwell.event("sent", 8)
    assert (run.status, again.status) == ("completed", "waiting")
    stepwell.event("sent", 9)
    assert again.result == ["tell all", 7, 9]


def test_a_dry_run_names_nothing_where_all_had_begun_before(memory: Stepwell) -> None:
    run = Shop(memory, ("fetch", "a")).fails("gathered", ITEMS)
    assert run_now(memory.service.redrive_foretold(run.id))["dropped"] == []
