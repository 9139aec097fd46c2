"""Redriving durable functions: the journal up to the failed operation is kept, and replayed against today's code."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stepwell.engine.actions import Outcome
from stepwell.errors import Conflict, InvalidInput
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.steps.port import StepCall
from stepwell.testing.kit import Run, Stepwell

TRIP = """
from stepwell import workflow, step

@step
def book(city: str) -> str:
    return "hotel"

@step
def fly(city: str) -> str:
    return "flight"

@step
def tell(what: str) -> str:
    return "told"

@workflow(name="trip")
async def trip(ctx, city: str):
    hotel = await ctx.step(book, city)
    await ctx.sleep("1h")
    try:
        flight = await ctx.step(fly, city)
    except Exception:
        await ctx.step(tell, "no flight")
        raise
    return [hotel, flight]
"""


class Folder:
    """A folder with one module of durable functions."""

    def __init__(self, path: Path) -> None:
        self.path, self.made = path, list[Stepwell]()

    def __call__(self, text: str) -> Stepwell:
        self.write(text)
        self.made.append(Stepwell(self.path))
        return self.made[-1]

    def write(self, text: str) -> None:
        (self.path / "travel.py").write_text(text)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    folder = Folder(tmp_path)
    yield folder
    for kit in folder.made:
        kit.close()
    sys.modules.pop("travel", None)


def ended(kit: Stepwell) -> Run:
    run = kit.start("trip", {"city": "Rome"})
    kit.advance("2h")
    assert run.status == "failed"
    return run


def test_a_function_goes_on_at_the_operation_that_failed(folder: Folder) -> None:
    kit = folder(TRIP)
    book = kit.mock("book", returns="hotel")
    kit.mock("fly", raises=ValueError("no seat"), times=1)
    again = ended(kit).redrive()
    assert (again.status, again.result, len(book.calls)) == ("completed", ["hotel", "flight"], 1)
    assert "tell" not in again.steps


def test_a_function_whose_own_code_failed_is_replayed_against_todays_code(folder: Folder) -> None:
    kit = folder(TRIP.replace("return [hotel, flight]", "return [hotel, flight][7]"))
    book, fly = kit.mock("book", returns="hotel"), kit.mock("fly", returns="flight")
    run = ended(kit)
    folder.write(TRIP)
    kit.reload()
    again = run.redrive()
    assert (again.status, again.result) == ("completed", ["hotel", "flight"])
    assert (len(book.calls), len(fly.calls)) == (1, 1)


def test_code_that_does_not_fit_the_journal_waits_for_other_code_and_says_where(folder: Folder) -> None:
    kit = folder(TRIP)
    kit.mock("fly", raises=ValueError("no seat"), times=1)
    run = ended(kit)
    folder.write(TRIP.replace("hotel = await ctx.step(book, city)", "hotel = await ctx.step(tell, city)"))
    kit.reload()
    again = run.redrive()
    assert (again.status, again.waiting_for) == ("waiting", "code")
    stuck = next(entry for entry in again.history if entry["type"] == "function.stuck")
    assert stuck["data"]["error"]["type"] == "non_determinism"


def test_a_function_that_does_not_take_the_input_any_more_is_refused_until_it_does(folder: Folder) -> None:
    kit = folder(TRIP)
    book = kit.mock("book", returns="hotel")
    kit.mock("fly", raises=ValueError("no seat"), times=1)
    run = ended(kit)
    folder.write(TRIP.replace("city: str):", "city: str, days: int):"))
    kit.reload()
    for call in (kit.service.redrive_foretold, kit.service.redrive):
        with pytest.raises(InvalidInput, match="does not fit trip: days is missing") as refused:
            run_now(call(run.id))
        assert (refused.value.code, "a default" in str(refused.value.hint)) == ("step_input", True)
    assert len(kit.runs("trip")) == 1
    folder.write(TRIP.replace("city: str):", "city: str, days: int = 1):"))
    kit.reload()
    again = run.redrive()
    assert (again.status, len(book.calls)) == ("completed", 1)


def test_from_an_operation_it_is_run_again(folder: Folder) -> None:
    kit = folder(TRIP)
    book = kit.mock("book", returns="hotel")
    kit.mock("fly", raises=ValueError("no seat"), times=1)
    again = ended(kit).redrive(since="book")
    kit.advance("2h")
    assert (again.status, len(book.calls)) == ("completed", 2)


ALL = TRIP.replace(
    "flight = await ctx.step(fly, city)", "flight = await ctx.all(ctx.step(fly, city), ctx.step(tell, city))"
)


def test_of_operations_that_were_awaited_together_only_those_that_failed_run_again(folder: Folder) -> None:
    kit = folder(ALL)
    book, fly = kit.mock("book", returns="hotel"), kit.mock("fly", raises=ValueError("no seat"), times=2)
    tell = kit.mock("tell", returns="told")
    second = ended(kit).redrive()
    assert second.status == "failed"
    third = second.redrive()
    assert (third.status, third.result[0]) == ("completed", "hotel")
    assert (len(book.calls), len(fly.calls)) == (1, 2)
    assert third.result[1][1] == "told"
    assert [len(fork.branches) for fork in run_now(kit.service.survey(run_now(kit.service.standing(third.id))))] == [2]
    assert len(tell.calls) == 3  # twice in the `except` of those that failed, and once for good


@pytest.mark.parametrize("is_beside", [False, True], ids=["alone", "beside another"])
def test_from_an_operation_of_an_all_is_refused_with_the_name_of_the_all(folder: Folder, is_beside: bool) -> None:
    text = "ctx.all(ctx.step(fly, city), ctx.step(tell, city))"
    gathered = f"(await asyncio.gather({text}, ctx.sleep('1m')))[0]"
    kit = folder("import asyncio\n" + ALL.replace(f"await {text}", gathered if is_beside else f"await {text}"))
    kit.mock("fly", raises=ValueError("no seat"), times=1)
    run = ended(kit)
    with pytest.raises(Conflict, match="fly is a step of a fork's branches, those of all") as refused:
        run.redrive(since="fly")
    assert (refused.value.code, "redrive it `from` all" in str(refused.value.hint)) == ("failed_in_fork", True)
    with pytest.raises(InvalidInput, match="did not come to 'nowhere'"):
        run.redrive(since="nowhere")
    again = run.redrive(since="all")
    kit.advance("2h")
    assert again.status == "completed"


def test_a_function_that_was_cancelled_in_a_step_keeps_that_steps_key(folder: Folder) -> None:
    kit = folder(TRIP)
    run = kit.start("trip", {"city": "Rome"})
    assert run.status == "waiting"
    run.terminate()
    again = run.redrive()
    assert again.status == "waiting"
    kit.advance("2h")
    assert again.result == ["hotel", "flight"]


def test_a_rerun_begins_from_the_beginning(folder: Folder) -> None:
    kit = folder(TRIP)
    book = kit.mock("book", returns="hotel")
    kit.mock("fly", raises=ValueError("no seat"), times=1)
    again = ended(kit).rerun()
    kit.advance("2h")
    assert (again.status, len(book.calls)) == ("completed", 2)


def test_the_replay_has_the_clock_and_the_chance_of_the_failed_run(folder: Folder) -> None:
    """Also when the run that goes on fails in its turn, days later."""
    told = "hotel = await ctx.step(book, f'{ctx.now()} {ctx.random()} {ctx.uuid()}')"
    kit = folder(TRIP.replace("hotel = await ctx.step(book, city)", told))
    book = kit.mock("book", returns="hotel")
    fly = kit.mock("fly", raises=ValueError("no seat"), times=2)
    second = ended(kit).redrive()
    assert second.status == "failed"
    kit.advance("2d")
    third = second.redrive()
    assert (third.status, third.result) == ("completed", ["hotel", "flight"])
    assert (len(book.calls), len(fly.calls)) == (1, 2)


def test_an_operation_has_one_key_however_often_it_is_redriven(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    kit, keys = folder(TRIP), set[str]()
    real = kit._steps.run

    async def run(call: StepCall) -> Outcome:
        keys.update({call.key} if call.node == "fly" else ())
        return await real(call)

    monkeypatch.setattr(kit._steps, "run", run)
    kit.mock("fly", raises=ValueError("no seat"), times=2)
    first = ended(kit)
    third = first.redrive().redrive()
    assert (third.status, keys) == ("completed", {f"{first.id}:0:3"})


@pytest.mark.parametrize(("given", "told"), [({"city": "Oslo"}, "days is missing"), (5, "this one is no object")])
def test_a_fork_with_an_input_that_the_function_does_not_take_is_refused(folder: Folder, given: Any, told: str) -> None:
    kit = folder(TRIP.replace("city: str):", "city: str, days: int):"))
    run = kit.start("trip", {"city": "Rome", "days": 2})
    with pytest.raises(InvalidInput, match=told) as refused:
        run.fork(1, input=given)
    assert refused.value.code == "step_input"


def test_a_function_can_be_forked_at_an_operation_with_another_result(folder: Folder) -> None:
    kit = folder(TRIP)
    book, fly = kit.mock("book", returns="hotel"), kit.mock("fly", returns="flight")
    run = kit.start("trip", {"city": "Rome"})
    kit.advance("2h")
    assert (run.status, run.result) == ("completed", ["hotel", "flight"])
    again = run.fork(3, result="train")
    assert (again.status, again.result) == ("completed", ["hotel", "train"])
    assert (len(book.calls), len(fly.calls)) == (1, 1)
    with pytest.raises(InvalidInput) as refused:
        run.fork(3, state={"seat": 4})
    assert refused.value.code == "no_state"


UNDONE = TRIP.replace('await ctx.step(tell, "no flight")', "await ctx.step(tell, hotel)")


def test_what_a_function_did_after_the_failure_is_not_kept_and_a_dry_run_says_so(folder: Folder) -> None:
    """It may have undone what is kept. The redrive's answer says it too; that of a repeated call does not."""
    kit = folder(UNDONE)
    kit.mock("fly", raises=ValueError("no seat"), times=1)
    tell = kit.mock("tell", returns="told")
    run = ended(kit)
    foretold = run_now(kit.service.redrive_foretold(run.id))
    assert [one["step"] for one in foretold["again"]] == ["fly"]
    assert foretold["dropped"] == [{"token": "0", "step": "tell"}]
    made = run_now(kit.service.redrive(run.id))
    assert [*made.dropped] == foretold["dropped"]
    assert [*run_now(kit.service.redrive(run.id)).dropped] == []
    assert run_now(kit.service.redrive_foretold(run.id))["dropped"] == foretold["dropped"]
    assert len(tell.calls) == 1


def test_what_followed_from_the_step_before_is_not_kept_either(folder: Folder) -> None:
    kit = folder(UNDONE)
    kit.mock("fly", raises=ValueError("no seat"), times=1)
    run = ended(kit)
    foretold = run_now(kit.service.redrive_foretold(run.id, "book"))
    assert [one["step"] for one in foretold["again"]] == ["book"]
    assert foretold["dropped"] == [{"token": "0", "step": "tell"}]


CAUGHT = TRIP.replace("        raise\n", '        raise RuntimeError("no trip")\n')


def test_what_a_function_whose_own_code_failed_had_done_is_all_kept(folder: Folder) -> None:
    kit = folder(CAUGHT)
    kit.mock("fly", raises=ValueError("no seat"), times=1)
    foretold = run_now(kit.service.redrive_foretold(ended(kit).id))
    assert [one["step"] for one in foretold["kept"]] == ["book", "sleep", "tell"]
    assert foretold["dropped"] == []


GATHERED = """
import asyncio
""" + TRIP.replace(
    "flight = await ctx.step(fly, city)", "flight, _ = await asyncio.gather(ctx.step(fly, city), ctx.sleep('1m'))"
).replace("        raise\n", '        await ctx.sleep("1m")\n        raise\n')


def test_what_it_did_after_its_tasks_failed_is_not_kept_either(folder: Folder) -> None:
    kit = folder(GATHERED)
    kit.mock("fly", raises=ValueError("no seat"), times=1)
    foretold = run_now(kit.service.redrive_foretold(ended(kit).id))
    assert "fly" in [one["step"] for one in foretold["again"]]
    assert [one["step"] for one in foretold["dropped"]] == ["tell", "sleep"]
