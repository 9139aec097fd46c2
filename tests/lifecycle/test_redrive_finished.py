"""Redriving functions whose other tasks went on after the failure: what they completed is taken, and not done again."""

from __future__ import annotations

import contextlib
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from stepwell.cli.views.telling import history_line
from stepwell.engine.durable import finished, operations, redriven, task_records
from stepwell.engine.durable.turns import Asked
from stepwell.engine.token import Token
from stepwell.errors import DefinitionError, PortError
from stepwell.runtime.loop.driving import run_now
from stepwell.testing.kit import Stepwell
from tests.durable.dying import Dying, deaths
from tests.lifecycle.shop import FOLDER, Shop
from tests.scenarios.conftest import stepwell

__all__ = ["stepwell"]  # the fixture, over SQLite and AWS
MANY = ["a", "b", "c", "d", "e"]


@pytest.fixture
def memory() -> Iterator[Stepwell]:
    kit = Stepwell(FOLDER)
    yield kit
    kit.close()


def code() -> Any:
    """The module of the functions, as the kit has imported it."""
    return sys.modules["tasks"]


@pytest.mark.parametrize("workflow", ["collected", "pooled", "one_by_one"])
def test_only_what_failed_and_what_follows_it_runs_again(stepwell: Stepwell, workflow: str) -> None:
    """Whether they ran beside each other, two at a time, or each alone."""
    shop = Shop(stepwell, ("fetch", "b"))
    again, calls = shop.mended(shop.fails(workflow, MANY))
    assert again.status == "completed"
    assert calls == Counter([("fetch", "b")] + [("store", "fetch b")] * (workflow != "pooled"))


def test_of_several_that_failed_alike_all_run_again(stepwell: Stepwell) -> None:
    shop = Shop(stepwell, ("fetch", "b"), ("fetch", "e"))
    again, calls = shop.mended(shop.fails("pooled", MANY))
    assert (again.status, calls) == ("completed", {("fetch", "b"): 1, ("fetch", "e"): 1})


def test_what_followed_from_the_failure_runs_again(memory: Stepwell) -> None:
    """The failed task's own steps, and those of the function that had awaited it."""
    shop = Shop(memory, ("store", "fetch b"))
    run = shop.fails("sorry", MANY)
    assert ("tell", "no b") in shop.calls
    second, calls = shop.mended(run)
    assert second.status == "completed"
    assert calls == {("store", "fetch b"): 1, ("tell", "all"): 1}


def test_if_it_fails_again_what_follows_runs_again(memory: Stepwell) -> None:
    shop = Shop(memory, ("store", "fetch b"))
    run = shop.fails("sorry", MANY)
    shop.calls.clear()
    second = run.redrive()
    assert second.status == "failed"
    assert Counter(shop.calls) == {("store", "fetch b"): 1, ("tell", "no b"): 1, ("tell", "all"): 1}
    third, calls = shop.mended(second)
    assert (third.status, calls) == ("completed", {("store", "fetch b"): 1, ("tell", "all"): 1})


def test_a_cancelled_task_cleans_up_again(memory: Stepwell) -> None:
    """It takes again what it had given back."""
    shop = Shop(memory, ("fetch", "b"))
    run = shop.fails("tidied", ["a", "b", "c"])
    assert ("tell", "back c") in shop.calls
    again, calls = shop.mended(run)
    assert again.status == "completed"
    assert all(calls["tell", f"back {item}"] == 1 for item in "abc" if calls["store", f"fetch {item}"])


def test_functions_of_the_function_s_own_are_taken_too(memory: Stepwell) -> None:
    shop = Shop(memory, ("fetch", "b"))
    run = shop.fails("closures", MANY)
    called: list[str] = code().CALLED
    assert sorted(called[-4:]) == ["fetch a", "fetch c", "fetch d", "fetch e"]
    called.clear()
    again, calls = shop.mended(run)
    assert again.result == [f"kept fetch {item} tell {item}" for item in MANY]
    assert (called, calls) == (["fetch b"], {("fetch", "b"): 1, ("tell", "b"): 1})


def test_writes_to_a_table_are_made_once(memory: Stepwell) -> None:
    shop = Shop(memory, ("fetch", "b"))
    again, calls = shop.mended(shop.fails("counted", MANY))
    assert (again.status, calls) == ("completed", {("fetch", "b"): 1, ("tell", "fetch b"): 1})
    counts = {str(one["item"]): one["count"] for one in memory.table("sales").items()}
    assert counts == dict.fromkeys(MANY, 1)


def test_a_result_is_taken_after_a_wait_for_code_too(tmp_path: Path) -> None:
    """The worker dies at each of the new run's records in turn, and the code is broken when another one goes on."""
    for at in count(1):
        folder = tmp_path / str(at)
        shutil.copytree(FOLDER, folder)
        shop = Shop(Stepwell(folder), ("fetch", "b"))
        run = shop.fails("collected", ["a", "b", "c"])
        dying = Dying(shop.kit, at, is_done=False, writes={"append"})
        with contextlib.suppress(PortError):
            shop.mended(run)
        if not dying.has_killed:
            assert at > 10
            break
        _wait_for_code(shop.kit, folder / "tasks.py")
        assert run.redrive().status == "completed"
        assert set(shop.calls) == {("fetch", "b"), ("store", "fetch b")}, at
        shop.kit.close()


def _wait_for_code(kit: Stepwell, module: Path) -> None:
    mended = module.read_text()
    module.write_text("def fetch(:")
    with contextlib.suppress(DefinitionError):
        kit.reload()
    kit.advance("3m")
    module.write_text(mended)
    kit.reload()
    kit.advance("2h")


def test_a_task_that_asks_for_something_else_takes_nothing_more(
    memory: Stepwell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own step after that may have the same name and the same arguments."""
    shop = Shop(memory, ("fetch", "b"))
    run = shop.fails("changing", MANY)
    monkeypatch.setattr(code(), "NEW", " anew")
    again, calls = shop.mended(run)
    assert again.status == "completed"
    late = [item for item in MANY if calls["store", f"fetch {item} anew"]]
    assert {*late} > {"b"}
    assert all(calls["tell", item] == 1 for item in late)
    assert Counter(name for name, _ in calls) == {"fetch": 1, "store": len(late), "tell": len(late)}


def test_what_a_redriven_run_had_not_yet_taken_is_there_for_the_next_one(memory: Stepwell) -> None:
    shop = Shop(memory, ("fetch", "b"), ("fetch", "e"))
    first = shop.fails("one_by_one", MANY)
    shop.broken = {("store", "fetch b")}
    second = first.redrive()
    assert second.status == "failed"
    third, calls = shop.mended(second)
    assert third.status == "completed"
    assert calls == {("store", "fetch b"): 1}


@pytest.mark.parametrize("workflow", ["pooled", "one_by_one", "collected", "sorry"])
def test_a_redriven_run_that_is_terminated_leaves_what_it_had_not_yet_taken(memory: Stepwell, workflow: str) -> None:
    shop = Shop(memory, ("fetch", "b"))
    first = shop.fails(workflow, MANY)
    shop.broken.clear()
    second = first.redrive()  # it has not gone on yet
    run_now(memory.service.terminate(second.id))
    third, calls = shop.mended(second)
    assert third.status == "completed"
    assert all(item in ("b", "fetch b", "all") for _, item in calls), calls


def test_a_dry_run_says_what_is_kept_and_what_runs_again(memory: Stepwell) -> None:
    shop = Shop(memory, ("store", "fetch b"))
    run = shop.fails("sorry", MANY)
    told = run_now(memory.service.redrive_foretold(run.id))
    assert Counter(one["step"] for one in told["kept"]) == {"fetch": 5, "store": 4}
    assert told["dropped"] == [{"token": "0", "step": "tell"}, {"token": "0/13.0", "step": "tell"}]  # itself; a task
    assert len(memory.runs("sorry")) == 1


def test_the_history_says_where_a_result_was_taken_from(memory: Stepwell) -> None:
    shop = Shop(memory, ("fetch", "b"))
    run = shop.fails("pooled", MANY)
    again, _ = shop.mended(run)
    taken = [entry["data"]["taken_from"] for entry in again.history if "taken_from" in (entry.get("data") or {})]
    assert taken
    assert all(place.startswith(f"{run.id}:0") for place in taken)
    lines = [history_line(entry, memory.now).plain for entry in again.history]
    assert sum(line.endswith(f", taken from {run.id}") for line in lines) == len(taken)


def test_what_is_taken_is_no_step_of_the_run_s_cost(memory: Stepwell) -> None:
    shop = Shop(memory, ("fetch", "b"))
    again, calls = shop.mended(shop.fails("pooled", MANY))
    assert again.view["cost"]["steps"] == calls.total()


def test_a_result_of_a_run_that_was_deleted_is_a_failure_and_no_second_call(memory: Stepwell) -> None:
    shop = Shop(memory, ("fetch", "b"))
    run = shop.fails("pooled", MANY)
    shop.broken.clear()
    shop.calls.clear()
    again = run.redrive()  # it has not gone on yet
    run_now(memory._parts.eraser.delete(run.id))
    memory.advance("2h")
    assert again.status == "failed"
    assert again.error is not None
    assert again.error["type"] == "result_gone"
    assert set(shop.calls) == {("fetch", "b")}


@pytest.mark.parametrize("workflow", ["pooled", "one_by_one", "sorry", "closures"])
def test_whoever_dies_at_whichever_call_nothing_is_done_again(workflow: str) -> None:
    played = {}

    def make() -> Stepwell:
        kit = Stepwell(FOLDER)
        shop = Shop(kit, ("fetch", "b"))
        run = shop.fails(workflow, ["a", "b", "c", "d"])
        shop.broken.clear()
        done = {call for call in shop.calls if call[0] in ("fetch", "store") and call != ("fetch", "b")}
        shop.calls.clear()
        played[id(kit)] = run, shop, done
        return kit

    count = 0

    def play(kit: Stepwell) -> None:
        played[id(kit)][0].redrive()

    for kit in deaths(make, play, each=4):
        run, shop, done = played[id(kit)]
        again = run.redrive()
        kit.advance("2h")
        assert again.status == "completed"
        assert not done & {*shop.calls}
        count += 1
        kit.close()
    assert count > 6


@contextmanager
def failure_reaches_nothing() -> Iterator[None]:
    """What a failed task did about its failure is taken as well."""
    with mock.patch.object(redriven, "_reaches", return_value=False):
        yield


@contextmanager
def asked_for_anything() -> Iterator[None]:
    """A task takes the result of a step that it gave other arguments."""

    def taken_by(token: Token, task: str, asked: Asked) -> str:
        there = next(iter(token.finished.get(finished.path_of(task), ())), None)
        return there.place if there is not None and there.what == str(asked) else ""

    with mock.patch.object(operations, "taken_by", taken_by), mock.patch.object(task_records, "taken_by", taken_by):
        yield


def test_an_engine_without_one_of_these_laws_is_caught(memory: Stepwell, monkeypatch: pytest.MonkeyPatch) -> None:
    with failure_reaches_nothing(), pytest.raises(AssertionError):
        test_if_it_fails_again_what_follows_runs_again(memory)
    with asked_for_anything(), pytest.raises(AssertionError):
        test_a_task_that_asks_for_something_else_takes_nothing_more(memory, monkeypatch)
