"""Events that functions send: to runs, to keys, to their children; and runs that begin anew as another function."""

from __future__ import annotations

import pytest

from stepwell.errors import Conflict, InvalidInput
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.starts.starting import Signal, Start, Started
from stepwell.testing.kit import Run, Stepwell
from tests.durable.conftest import Flows
from tests.durable.dying import deaths

CODE = """
import asyncio
from stepwell import ChildFailed, StepFailed, workflow

@workflow
async def counter(ctx, most: int = 2):
    seen = []
    while len(seen) < most:
        seen.append(await ctx.event("add"))
    return seen

@workflow
async def tells(ctx, run: str):
    try:
        return await ctx.send("add", 1, run=run)
    except StepFailed as error:
        return error.type

@workflow
async def pays(ctx, order: str):
    await ctx.send("paid", {"sum": 5}, key=order)
    return await ctx.event("shipped", key=order)

@workflow
async def ships(ctx, order: str):
    paid = await ctx.event("paid", key=order)
    await ctx.send("shipped", paid["sum"], key=order)

@workflow
async def parent(ctx):
    child = ctx.start(ctx.child(counter))
    await child.send("add", 1)
    await ctx.sleep("1m")
    await child.send("add", 2)
    result = await child
    try:
        await child.send("add", 3)
    except StepFailed as error:
        return [result, error.type]

@workflow
async def cancels(ctx):
    child = ctx.start(ctx.child(counter))
    await ctx.sleep("1m")
    child.cancel()
    try:
        await child
    except asyncio.CancelledError:
        return "cancelled"

@workflow
async def draft(ctx, title: str):
    ctx.state["title"] = title
    await ctx.event("publish")
    return ctx.continue_as(published, title, views=1)

@workflow
async def published(ctx, title: str, views: int):
    ctx.query("views", lambda: views)
    await ctx.event("next")
    if views < 2:
        return ctx.continue_as(published, title, views + 1)
    return ctx.continue_as(archived, [title, ctx.state["title"], views])

@workflow
async def archived(ctx, what: list):
    what = await ctx.run(lambda: [*what, "archived"], name="archive")
    return ctx.continue_as(draft, "again") if what[0] == "first" else what
"""


@pytest.fixture(params=[1_000, 0], ids=["warm", "cold"])
def sessions(request: pytest.FixtureRequest) -> int:
    """How many functions are kept between two operations: with none, each is replayed from its log."""
    return int(request.param)


@pytest.fixture
def kit(flows: Flows, sessions: int) -> Stepwell:
    return flows(CODE, sessions=sessions)


def test_a_function_sends_an_event_to_a_run(kit: Stepwell) -> None:
    counter = kit.start("counter", {"most": 1})
    sent = kit.start("tells", {"run": counter.id})
    assert str(sent.result).startswith("evt_")
    assert counter.result == [1]


def test_what_it_cannot_reach_is_an_error_that_it_may_catch(kit: Stepwell) -> None:
    ended = kit.start("counter", {"most": 0})
    assert ended.status == "completed"
    assert [kit.start("tells", {"run": run}).result for run in (ended.id, "run_none")] == ["run_ended", "unknown_run"]


def test_functions_talk_by_keys(kit: Stepwell) -> None:
    pays, ships = kit.start("pays", {"order": "A-1"}), kit.start("ships", {"order": "A-1"})
    assert (pays.result, ships.status) == (5, "completed")


def test_a_handle_of_a_child_sends_to_it_before_it_waits_and_later(kit: Stepwell) -> None:
    run = kit.start("parent")
    kit.advance("2m")
    assert run.result == [[1, 2], "run_ended"]


def test_a_handle_of_a_child_ends_it(kit: Stepwell) -> None:
    run = kit.start("cancels")
    kit.advance("2m")
    (child,) = kit.runs("counter")
    assert (run.result, child.status) == ("cancelled", "cancelled")


def test_a_run_begins_anew_as_another_function_and_keeps_its_state(kit: Stepwell) -> None:
    run = kit.start("draft", {"title": "old"})
    run.event("publish")
    for views in (1, 2):
        assert run.query("views") == views
        run.event("next")
    assert (run.result, run.view["workflow"]) == (["old", "old", 2, "archived"], "draft")
    named = [entry["data"].get("function") for entry in run.history if entry["type"] == "function.continued"]
    assert named == ["python:flow.published", "python:flow.published", "python:flow.archived"]


def test_it_may_begin_anew_as_the_function_that_it_was(kit: Stepwell) -> None:
    run = kit.start("draft", {"title": "first"})
    for name in ("publish", "next", "next"):
        run.event(name)
    assert (run.state["title"], run.waiting_for) == ("again", "event")


def test_a_start_with_an_event_starts_the_run_or_signals_the_one_that_runs(kit: Stepwell) -> None:
    started = [signal(kit, at).created for at in (1, 2)]
    assert started == [True, False]
    assert Run(kit, "cart").result == [1, 2]


def test_a_run_that_has_ended_takes_no_other_event_and_the_same_one_again(kit: Stepwell) -> None:
    for at in (1, 2, 2):
        signal(kit, at)
        kit.settle()
    with pytest.raises(Conflict, match="has ended"):
        signal(kit, 3)
    with pytest.raises(InvalidInput, match="run_id"):
        run_now(kit.service.start(Start("counter", event=Signal("add"))))
    with pytest.raises(Conflict, match="counter"):
        run_now(kit.service.start(Start("draft", run_id="cart", event=Signal("add"))))


def signal(kit: Stepwell, payload: int) -> Started:
    event = Signal("add", payload, f"event-{payload}")
    return run_now(kit.service.start(Start("counter", {"most": 2}, run_id="cart", event=event)))


def test_whoever_dies_each_event_is_sent_once(flows: Flows, sessions: int) -> None:
    def play(kit: Stepwell) -> None:
        signal(kit, 1)
        run_now(kit.service.start(Start("tells", {"run": "cart"}, run_id="tells")))
        run_now(kit.service.start(Start("parent", run_id="parent")))
        kit.settle()

    for kit in deaths(lambda: flows(CODE, sessions=sessions), play, each=2):
        assert (Run(kit, "cart").result, Run(kit, "parent").result) == ([1, 1], [[1, 2], "run_ended"])


def test_whoever_dies_a_run_begins_anew_once(flows: Flows, sessions: int) -> None:
    def play(kit: Stepwell) -> None:
        run_now(kit.service.start(Start("draft", {"title": "old"}, run_id="draft")))
        for at, name in enumerate(("publish", "next", "next")):
            run_now(kit.service.send_event(name, run_id="draft", payload=None, event_id=f"e{at}"))
        kit.settle()

    for kit in deaths(lambda: flows(CODE, sessions=sessions), play, each=2):
        run = Run(kit, "draft")
        assert run.result == ["old", "old", 2, "archived"]
        assert [entry["type"] for entry in run.history].count("function.continued") == 3
