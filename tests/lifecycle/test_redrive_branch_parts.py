"""What waits of branches, of a DAG's steps and of a function's tasks had taken goes to the same ones of the new run."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepwell.engine.waits import branch_topic
from stepwell.limits import DAY_MS, HOUR_MS
from stepwell.runtime.loop.driving import run_now
from stepwell.testing.kit import Stepwell
from tests.aws.ledger_kit import metered
from tests.engine.golden_logs import WORKFLOWS
from tests.lifecycle.kills import killed
from tests.lifecycle.test_redrive import redriven
from tests.lifecycle.test_redrive_parts import NAME, send, sent
from tests.runtime.kit import World
from tests.scenarios.conftest import stepwell

__all__ = ["stepwell"]  # the fixture
FOLDER: Path = WORKFLOWS
EACH = """
workflow: flow
nodes:
  begin: {run: python:m.begin, transitions: [{to: papers, foreach: "{{ ['ana', 'bea'] }}", as: who}]}
  papers:
    wait: {for: document, key: "{{ state.who }}", documents: [cv, photo], timeout: 1d}
    transitions: [{to: check}]
  check: {run: python:m.check, input: "{{ state.who }}", transitions: [{to: join}]}
  join: {fan_in: {merge: append}}
"""
DAG = """
workflow: flow
steps:
  - {name: papers, wait: {for: document, documents: [cv, photo], timeout: 2d}}
  - {name: deed, wait: {for: document, documents: [deed, photo], timeout: 2d}}
  - {name: hold, wait: {for: approval, approvers: {of: [ana, bea], need: 2}, timeout: 2d}}
  - {name: go, wait: {for: event, name: go, timeout: 1d}}
  - {name: close, run: python:m.close, depends_on: [papers, deed, hold, go]}
"""
FUNCTION = """
import asyncio
from stepwell import step, workflow

@step
def bill(who): ...

async def billed(ctx, who):
    await ctx.event("go")
    return await ctx.step(bill, who)

@workflow
async def order(ctx):
    return await asyncio.gather(ctx.all(ctx.event("paid"), ctx.event("packed")), billed(ctx, "ana"))
"""


LATER = """
async def two(ctx):
    return [await ctx.event("paid"), await ctx.event("packed")]

@workflow
async def later(ctx):
    found = await asyncio.gather(billed(ctx, "ana"), two(ctx), return_exceptions=True)
    for one in found:
        if isinstance(one, BaseException):
            raise one
    return found
"""
CVS = {"ana": "cv/1", "bea": "cv/2"}


def late() -> tuple[World, str]:
    """A world, and its run whose branches had a CV each when their time was up."""
    world = World(EACH)
    run_id = world.start()
    world.pass_time(HOUR_MS)
    for who, url in CVS.items():
        send(world, NAME, {"document": "cv", "url": url}, key=who, event_id=f"cv-{who}")
    world.pass_time(DAY_MS)
    assert world.header(run_id).status == "timed_out"
    return world, run_id


def parts(world: World, run_id: str, fork: str = "0/2") -> list[list[str]]:
    """Of each branch, what its wait has got."""
    branches = run_now(world.service.branches(run_id, fork, 0, 10))
    return [[one.payload["url"] for one in branch.token.received] for branch in branches]


def finished(world: World, run_id: str) -> list[dict[str, str]]:
    """Sends the photos, and returns the documents of each branch."""
    for who in CVS:
        send(world, NAME, sent("photo"), key=who)
    assert world.header(run_id).status == "completed"
    return [one["documentUrls"] for one in world.token(run_id).scope["join"]]


WHOLE = [{"cv": url, "photo": "photo/1"} for url in CVS.values()]


def test_each_branch_goes_on_with_its_own_documents() -> None:
    world, run_id = late()
    again = redriven(world, run_id)
    world.pass_time(21 * HOUR_MS)
    assert parts(world, again) == [["cv/1"], ["cv/2"]]
    assert finished(world, again) == WHOLE


def test_a_branch_that_waited_when_another_failed_keeps_its_documents(stepwell: Stepwell) -> None:
    stepwell.define(EACH)
    broken = [True]

    def check(who: str) -> str:
        if broken[0]:
            raise ValueError(who)
        return who

    stepwell.mock("begin", returns=None)
    stepwell.mock("check", returns=check)
    run = stepwell.start("flow", {})
    for name, who, version in (("cv", "ana", 1), ("cv", "bea", 2), ("photo", "bea", 1)):
        stepwell.settle()
        stepwell.event(NAME, sent(name, version), key=who)
    assert run.status == "failed"
    broken.clear()
    broken.append(False)
    again = run.redrive()
    stepwell.settle()
    stepwell.event(NAME, sent("photo"), key="ana")
    assert (again.status, [one["documentUrls"] for one in again.state["join"]]) == ("completed", WHOLE)


def test_what_came_in_both_runs_is_there_in_the_third() -> None:
    world, run_id = late()
    again = redriven(world, run_id)
    world.pass_time(HOUR_MS)
    send(world, NAME, sent("cv", 3), key="bea")
    world.pass_time(DAY_MS)
    third = redriven(world, again)
    world.pass_time(HOUR_MS)
    assert parts(world, third) == [["cv/1"], ["cv/3"]]


def test_what_no_branch_had_taken_of_it_goes_on_to_the_third() -> None:
    """The second run ended before its branches waited."""
    world, run_id = late()
    again = redriven(world, run_id)
    run_now(world.service.cancel(again))
    third = redriven(world, again)
    world.pass_time(HOUR_MS)
    assert parts(world, third) == [["cv/1"], ["cv/2"]]
    assert finished(world, third) == WHOLE


def test_a_dry_run_names_the_branches_that_are_sent_something() -> None:
    world, run_id = late()
    told = run_now(world.service.redrive_foretold(run_id))["sent_again"]
    assert [(one["token"], one["event_id"]) for one in told] == [("0/2.0", "cv-ana"), ("0/2.1", "cv-bea")]
    redriven(world, run_id)
    assert run_now(world.service.redrive_foretold(run_id))["sent_again"] == told


@pytest.mark.parametrize("done", [False, True], ids=["before it", "after it"])
def test_a_caller_that_dies_at_any_call_and_asks_again_loses_none(done: bool) -> None:
    for world, run_id in killed(late, redriven, done=done, least=12):
        world.pass_time(60_000)
        again = redriven(world, run_id)
        world.pass_time(HOUR_MS)
        assert parts(world, again) == [["cv/1"], ["cv/2"]]


def test_a_worker_that_dies_before_it_registers_the_wait_loses_none() -> None:
    world, run_id = late()
    again = redriven(world, run_id)

    def dies(*_: object) -> None:
        raise RuntimeError("the worker died")

    world.store.before["put_waiter"] = dies
    with pytest.raises(RuntimeError, match="died"):
        world.pass_time(HOUR_MS)
    world.store.before.pop("put_waiter", None)
    world.pass_time(HOUR_MS)
    assert finished(world, again) == WHOLE


def test_nothing_of_it_is_left_when_the_new_run_is_deleted() -> None:
    """Neither what its branches have taken, nor what they have not."""
    for hours in (0, 1):
        world, run_id = late()
        again = redriven(world, run_id)
        world.pass_time(hours * HOUR_MS)
        topics = [branch_topic(NAME, again, branch) for branch in ("0/2.0", "0/2.1")]
        assert all(run_now(world.store.get_event(topics[at], f"cv-{who}")) for at, who in enumerate(CVS))
        run_now(world.parts.eraser.delete(again, force=True))
        assert not any(run_now(world.store.get_event(topics[at], f"cv-{who}")) for at, who in enumerate(CVS))


def test_a_branch_registers_no_wait_for_what_is_sent_to_it_alone() -> None:
    """It looks for that when its wait begins; nothing comes later."""
    world, run_id = late()
    again = redriven(world, run_id)
    world.pass_time(HOUR_MS)
    assert run_now(world.store.waiters(branch_topic(NAME, again, "0/2.0"))) == []


def test_steps_of_a_dag_keep_documents_and_ask_for_votes_again(stepwell: Stepwell) -> None:
    """Who agreed, agreed to what the failed run asked."""
    stepwell.define(DAG)
    stepwell.mock("close", returns=None)
    run = stepwell.start("flow", {})
    stepwell.settle()
    for name in ("cv", "deed"):
        run.event(NAME, sent(name))
        stepwell.settle()
    run.approve(by="ana", wait="hold")
    stepwell.advance("1d")
    assert run.status == "timed_out"
    again = run.redrive()
    stepwell.settle()
    again.event("go")
    again.approve(by="bea", wait="hold")
    for number in (1, 2):
        again.event(NAME, sent("photo", number))
        stepwell.settle()
    assert again.status == "waiting"
    again.approve(by="ana", wait="hold")
    assert again.status == "completed"
    assert (again.state["papers"]["cv"], again.state["deed"]["deed"]) == ("cv/1", "deed/1")


def test_an_event_that_is_not_consumed_is_there_for_all_branches_again() -> None:
    """It is sent to the run once, as it was. A branch of its own two times might take it for two events."""
    arms = "{all: [{for: event, name: price}, {for: event, name: %s}], timeout: 1d}"
    steps = "".join(f"  - {{name: {name}, wait: {arms % name}}}\n" for name in ("bread", "milk"))
    world = World(f"workflow: flow\nevents: {{price: {{consume_on_read: false}}}}\nsteps:\n{steps}")
    run_id = world.start()
    world.pass_time(HOUR_MS)
    send(world, "price", 3, run_id=run_id, event_id="e-3")
    world.pass_time(DAY_MS)
    assert world.header(run_id).status == "timed_out"
    told = run_now(world.service.redrive_foretold(run_id))["sent_again"]
    assert [(one["token"], one["event_id"]) for one in told] == [("0", "e-3")]
    again = redriven(world, run_id)
    world.pass_time(HOUR_MS)
    for name in ("bread", "milk"):
        send(world, name, 1, run_id=again)
    assert world.header(again).status == "completed"


def test_a_task_that_waited_when_another_failed_keeps_its_events(tmp_path: Path) -> None:
    (tmp_path / "orders.py").write_text(FUNCTION)
    kit, broken = Stepwell(tmp_path), [ValueError("no bill today")]

    def bill(given: dict[str, str]) -> str:
        if broken:
            raise broken[0]
        return f"billed {given['who']}"

    kit.mock("bill", returns=bill)
    run = kit.start("order")
    kit.settle()
    for name in ("paid", "go"):
        run.event(name, {"of": name})
        kit.settle()
    assert run.status == "failed"
    broken.clear()
    again = run.redrive()
    again.event("packed", {"boxes": 1})
    assert (again.status, again.result) == ("completed", [[{"of": "paid"}, {"boxes": 1}], "billed ana"])
    kit.close()


def test_what_came_for_the_failed_run_before_its_wait_is_found_on_aws() -> None:
    """There a note names the event; the other stores look for it among all of them."""
    with metered() as world:
        kit = Stepwell(FOLDER, world.backend)
        kit.define(
            "workflow: flow\ntimeline:\n  - {name: nap, sleep: 1h}\n  - {name: pack, run: python:m.pack}\n"
            "  - {name: paid, wait: {for: event, name: paid, timeout: 1d}}\n"
        )
        kit.mock("pack", raises=ValueError("no box"), times=1)
        run = kit.start("flow", {})
        kit.settle()
        run.event("paid", {"amount": 5}, event_id="e-1")
        kit.advance("2h")
        assert run.status == "failed"
        kit.mock("pack", returns="packed")
        again = run.redrive()
        assert (again.status, again.state["paid"]) == ("completed", {"amount": 5})


def test_a_wait_that_a_task_began_after_the_failure_begins_anew(tmp_path: Path) -> None:
    """It has no place in the new run before that gets there. What it had in the failed run is to be sent again."""
    (tmp_path / "orders.py").write_text(FUNCTION + LATER)
    kit, broken = Stepwell(tmp_path), [ValueError("no bill today")]

    def bill(given: dict[str, str]) -> str:
        if broken:
            raise broken[0]
        return f"billed {given['who']}"

    kit.mock("bill", returns=bill)
    run = kit.start("later")
    kit.settle()
    for name in ("go", "paid", "packed"):  # the step fails before the other task waits for `packed`
        run.event(name, name)
        kit.settle()
    assert run.status == "failed"
    broken.clear()
    again = run.redrive()
    kit.settle()
    assert (again.status, again.waiting_for) == ("waiting", "event")
    again.event("packed", "again")
    assert (again.status, again.result) == ("completed", ["billed ana", ["paid", "again"]])
    kit.close()
