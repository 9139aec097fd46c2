"""How runs of durable functions look to people: the run, its history, why it waits."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stepwell.api.routes import create_app
from stepwell.api.runs.explain import explain
from stepwell.api.runs.flows import read_drawn
from stepwell.api.runs.moments import state_view
from stepwell.api.runs.views import read_run
from stepwell.errors import Conflict
from stepwell.runtime.calls import survey
from stepwell.runtime.calls.moments import as_of
from stepwell.runtime.loop.driving import run_now
from stepwell.testing.kit import Run, Stepwell
from tests.api.kit import event
from tests.durable.conftest import Flows

ORDER = """
from stepwell import workflow

def charge(n: int):
    return n

@workflow
async def order(ctx):
    await ctx.step(charge, 1)
    await ctx.all(ctx.step(charge, 2), ctx.sleep(1))
    ctx.state["charged"] = True
    await ctx.approval("boss", {"why": "dear"}, timeout="2d")
"""


def why(kit: Stepwell, run: Run) -> tuple[str, list[str]]:
    """What `stepwell explain` says: why the run is where it is, and what will wake it."""
    at = run_now(kit.service.standing(run.id))
    told = explain(at, int(kit.now.timestamp() * 1000), None, {})
    return told["why"], [one["what"] for one in told["wakers"]]


HAGGLE = """
from stepwell import workflow

def ask(shop: str):
    return len(shop)

@workflow
async def haggle(ctx):
    @ctx.query("best")
    def best():
        return ctx.state["best"]

    ctx.state["best"] = min(await ctx.map(ask, ["north", "east"]))
    await ctx.sleep("2d")
"""


def test_each_record_of_a_run_shows_the_state_after_it(flows: Flows) -> None:
    """Also between the records of tasks, whose operations are no nodes."""
    kit = flows(HAGGLE)
    run = kit.start("haggle")
    kit.advance("1s")
    at = run_now(kit.service.standing(run.id))
    logbook = run_now(kit.service.narrator(at.run_id)).logbook
    shown = [state_view(*run_now(as_of(logbook, at, slot)), at.token.slot) for slot in range(at.token.slot + 1)]
    assert [one["slot"] for one in shown] == list(range(at.token.slot + 1))
    assert (shown[0]["state"], shown[-1]["state"]) == ({}, {"best": 4})
    assert shown[-1]["status"] == "waiting"


def test_a_run_shows_its_operations_as_steps_and_how_many_have_ended(flows: Flows) -> None:
    kit = flows(ORDER)
    run = kit.start("order")
    kit.advance("1s")
    view = run.view
    assert (view["current_steps"], view["progress"], view["waiting_for"]) == (["boss"], "2/3", "approval")
    assert view["state"] == {"charged": True}
    assert {name: one.status for name, one in run.steps.items()} == {
        "charge": "completed", "sleep": "completed", "boss": "waiting",
    }  # fmt: skip
    assert view["steps"]["charge"]["branches"] == {"total": 2, "completed": 2}


def test_the_history_tells_what_was_awaited_and_not_how_it_is_done(flows: Flows) -> None:
    kit = flows(ORDER)
    run = kit.start("order")
    kit.advance("1s")
    run.approve(by="ana")
    told = [one["type"] for one in run.history if not one["token"].startswith("0/")]
    assert told == [
        "run.created", "run.pending", "run.started", "step.started", "step.completed", "fork.opened", "join.fired",
        "approval.requested", "approval.received", "run.completed",
    ]  # fmt: skip


def test_a_run_that_is_stuck_says_what_is_wrong_and_what_to_do(flows: Flows) -> None:
    kit = flows(ORDER)
    run = kit.start("order")
    assert run.status == "waiting"
    flows.write(ORDER.replace("await ctx.step(charge, 1)", "await ctx.sleep(1)"))
    kit.reload()
    kit.advance("1s")
    text, wakers = why(kit, run)
    assert "cannot continue with the deployed code: non_determinism: record 0 holds step charge" in text
    assert "asks for sleep" in text
    assert wakers == ["timer", "event", "branch"]


def test_the_progress_of_a_run_that_is_stuck_between_two_operations_is_not_full(flows: Flows) -> None:
    kit = flows(ORDER)
    run = kit.start("order")
    kit.advance("1s")
    flows.write("import nowhere\n" + ORDER)
    kit.reload()
    run.approve(by="ana")
    assert (run.waiting_for, run.steps["boss"].status, run.view["progress"]) == ("code", "completed", "3/4")


LINED = """
from stepwell import Retry, workflow

def ask(shop: str):
    raise ConnectionError("no line")

@workflow
async def tour(ctx):
    await ctx.map(ask, ["north", "east"], max_concurrency=1, retry=Retry(1, initial_delay="1h"))
"""


def test_a_branch_that_has_no_record_yet_names_its_operation(flows: Flows) -> None:
    run = flows(LINED).start("tour")
    shown = [(branch["status"], branch["current_step"]) for branch in run.branches("0/0")]
    assert shown == [("running", "ask"), ("pending", "ask")]
    assert [token["step"] for token in run.view["tokens"]] == ["ask"]


TOGETHER = """
from stepwell import workflow

def bake(n: int):
    return n

@workflow
async def oven(ctx):
    await HOW
"""


@pytest.mark.parametrize(
    ("how", "name"),
    [
        ("ctx.all(ctx.step(bake, 1), ctx.step(bake, 2))", "all"),
        ("ctx.all(ctx.step(bake, 1), ctx.step(bake, 2), name='loaves')", "loaves"),
        ("ctx.map(bake, [1, 2])", "bake"),
    ],
)
def test_what_runs_together_shows_before_the_first_of_it_has_ended(flows: Flows, how: str, name: str) -> None:
    """The log does not name yet what `ctx.all` runs, so it goes by the name of the whole."""
    kit, seen = flows(TOGETHER.replace("HOW", how)), list[Any]()

    def look(_: Any) -> int:
        if not seen:
            view = run_now(read_run(kit.service, "oven-1"))
            at = run_now(kit.service.standing("oven-1"))
            states = run_now(read_drawn(kit.service, at)).states
            seen.append({step: one["branches"] for step, one in view["steps"].items()})
            seen.extend([[one["step"] for one in view["tokens"]], view["current_steps"], view["progress"], set(states)])
            seen.append(explain(at, 0, None, {})["current_steps"])
        return 0

    kit.mock("bake", returns=1, takes=look)
    assert kit.start("oven", run_id="oven-1").status == "completed"
    assert seen[:2] == [{name: {"total": 2, "running": 2}}, [name, name]]
    assert seen[2:4] == [[name], "0/1"]
    assert {"oven", name} <= seen[4]
    assert seen[5] == [name]


WIDE = """
from stepwell import Retry, workflow

def bake(x):
    if x == 7:
        raise ValueError("black")
    return x

@workflow
async def cake(ctx, is_kept: bool):
    async def one(x):
        if x < 2:
            await ctx.event("oven")
        else:
            await ctx.step(bake, x, retry=Retry(0))

    try:
        await ctx.map(one, range(120), return_exceptions=is_kept)
    except ValueError:
        pass
"""


def test_tasks_too_many_to_be_read_are_counted_by_their_function_log(
    flows: Flows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(survey, "SURVEY_WIDTH", 100)
    run = flows(WIDE).start("cake", True)
    counted = {name: step["branches"] for name, step in run.view["steps"].items()}
    assert counted["bake"] == {"total": 118, "completed": 117, "failed": 1}
    assert counted["oven"] == {"total": 2, "waiting": 2}
    assert run.view["cost"]["steps"] == 118


def test_those_that_a_function_left_when_it_ended_are_cancelled(flows: Flows, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(survey, "SURVEY_WIDTH", 100)
    run = flows(WIDE).start("cake", False)
    assert run.status == "completed"
    counted = {name: step["branches"] for name, step in run.view["steps"].items()}
    assert counted["oven"] == {"total": 2, "cancelled": 2}
    assert counted["bake"]["total"] == 118
    assert counted["bake"]["failed"] == 1


ASKING = """
from stepwell import workflow

def look(item: str):
    return item

def peek(item: str):
    return item

@workflow
async def ask(ctx):
    answers = []

    @ctx.update("answer")
    def answer(text: str) -> int:
        answers.append(text)
        return len(answers)

    await ctx.step(look, "cup")
    await ctx.until(lambda: answers)
    return answers
"""


def test_an_update_of_a_run_whose_code_no_longer_fits_is_logged_once_and_taken_when_it_fits_again(
    flows: Flows, caplog: pytest.LogCaptureFixture
) -> None:
    kit = flows(ASKING)
    run = kit.start("ask")
    assert run.status == "waiting"
    flows.write(ASKING.replace("ctx.step(look", "ctx.step(peek"))
    kit.reload()
    with pytest.raises(Conflict):
        run.update("answer", {"text": "yes"}, "u1")
    kit.advance("10m")
    told = [one.getMessage() for one in caplog.records if "cannot take the update" in one.getMessage()]
    assert len(told) == 1
    assert f"{run.id} cannot take the update answer until its code fits again: non_determinism" in told[0]
    assert "step peek" in told[0]
    flows.write(ASKING)
    kit.reload()
    kit.advance("2m")
    assert run.result == ["yes"]


REFUSING = """
from stepwell import workflow

def look(what: str):
    return what

@workflow
async def ask(ctx):
    answers = []
    answer = ctx.update("answer", lambda text: answers.append(text))

    @answer.validator
    def is_text(text: str) -> None:
        if not text:
            raise ValueError("it is empty")

    await ctx.step(look, "cup")
    await ctx.event("go")
    return answers
"""


def test_explain_says_of_a_run_that_waits_for_code_which_updates_wait_for_it_too(flows: Flows) -> None:
    """An update that was refused waits for nothing."""
    kit = flows(REFUSING)
    run = kit.start("ask")
    assert run.status == "waiting"
    with pytest.raises(Conflict, match="it is empty"):
        run.update("answer", {"text": ""}, "u1")
    flows.write(REFUSING.replace("ctx.step(look", "ctx.step(peek"))
    kit.reload()
    run.event("go")
    with pytest.raises(Conflict):
        run.update("answer", {"text": "yes"}, "u2")
    explained = create_app(kit._parts).resolve(event("GET", f"/runs/{run.id}/explain"))
    told = json.loads(explained["body"])
    assert told["waiting_for"] == "code"
    assert "non_determinism" in told["why"]
    assert "The update answer is pending since 20" in told["why"]
