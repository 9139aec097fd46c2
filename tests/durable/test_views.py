"""How runs of durable functions look to people: the run, its history, why it waits."""

from __future__ import annotations

from stepwell.api.explain import explain
from stepwell.api.moments import state_view
from stepwell.runtime.calls.moments import as_of
from stepwell.runtime.loop.driving import run_now
from stepwell.testing.kit import Run, Stepwell
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
