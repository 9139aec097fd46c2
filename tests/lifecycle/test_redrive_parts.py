"""A redriven wait has the documents and events that the failed one had taken, and waits for the others anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stepwell.engine.actions import Outcome
from stepwell.engine.names import iso
from stepwell.engine.records import Kind, Pause, Topic
from stepwell.engine.waits import run_topic
from stepwell.limits import DAY_MS, HOUR_MS
from stepwell.runtime.log.messages import Publish, to_json
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.ports import Event, Lane
from stepwell.testing.kit import Stepwell
from tests.engine.golden_logs import WORKFLOWS
from tests.lifecycle.kills import killed
from tests.lifecycle.test_redrive import redriven
from tests.runtime.kit import World, fails, graph_of
from tests.scenarios.conftest import stepwell

__all__ = ["stepwell"]  # the fixture
FOLDER: Path = WORKFLOWS
NAME = "DOCUMENT_UPLOADED"
FLOW = "workflow: flow\nnodes:\n  papers: {wait: %s}\n"
PAPERS = "{for: document, documents: [cv, photo, card, visa], timeout: 1d}"
KEYED = PAPERS.replace("timeout", "key: ana, timeout")
EVENTS = "{for: event, name: %s, key: ana}"
EACH = f"{{all: [{{for: approval}}, {EVENTS % 'paid'}, {EVENTS % 'packed'}], timeout: 1d}}"


def sent(name: str, version: int = 1) -> dict[str, str]:
    return {"document": name, "url": f"{name}/{version}"}


def send(world: World, name: str, payload: Any, **options: Any) -> None:
    run_now(world.service.send_event(name, payload, **options))
    world.pass_time(HOUR_MS)


def late(wait: str = KEYED) -> tuple[World, str]:
    """A world, and its run that had three of four documents when its time was up; that of the CV came twice."""
    world = World(FLOW % wait)
    run_id = world.start()
    world.pass_time(HOUR_MS)
    for one in (sent("cv"), sent("photo"), sent("card"), sent("cv", 2)):
        send(world, NAME, one, key="ana", event_id=f"{one['document']}-{one['url'][-1]}")
    world.pass_time(DAY_MS)
    assert world.header(run_id).status == "timed_out"
    return world, run_id


def urls(world: World, run_id: str) -> Any:
    assert world.header(run_id).status == "completed"
    return world.token(run_id).scope["documentUrls"]


def parts(world: World, run_id: str) -> list[str]:
    return [one.part for one in world.token(run_id).received]


FUNCTION = """
from stepwell import workflow
@workflow
async def order(ctx):
    return await ctx.all(ctx.event("paid", timeout="1d"), ctx.event("packed", timeout="1d"))
"""
WHOLE = {"cv": "cv/2", "photo": "photo/1", "card": "card/1", "visa": "visa/1"}


def test_a_wait_goes_on_with_the_documents_that_had_come(stepwell: Stepwell) -> None:
    stepwell.define(FLOW % PAPERS)
    run = stepwell.start("flow", {})
    for one in (sent("cv"), sent("photo"), sent("card"), sent("cv", 2)):
        run.event(NAME, one)
        stepwell.advance("1h")
    stepwell.advance("1d")
    assert run.status == "timed_out"
    again = run.redrive()
    stepwell.advance("23h")
    assert again.status == "waiting"
    again.event(NAME, sent("photo", 2))
    stepwell.advance("10m")
    again.event(NAME, sent("visa"))
    assert (again.status, again.state["documentUrls"]) == ("completed", {**WHOLE, "photo": "photo/2"})


def test_the_new_wait_has_its_whole_time_and_is_redriven_with_what_came_in_both() -> None:
    world, run_id = late()
    again = redriven(world, run_id)
    world.pass_time(23 * HOUR_MS)
    assert (world.header(again).status, parts(world, again)) == ("waiting", ["photo", "card", "cv"])
    world.pass_time(2 * HOUR_MS)
    assert world.header(again).status == "timed_out"
    third = redriven(world, again)
    world.pass_time(HOUR_MS)
    send(world, NAME, sent("visa"), key="ana")
    assert urls(world, third) == WHOLE


def test_a_dry_run_lists_what_is_sent_again() -> None:
    world, run_id = late()
    came = [(one.at_ms, one.resumption) for one in run_now(world.service.records(run_id)) if one.kind is Kind.RECEIVED]
    told = run_now(world.service.redrive_foretold(run_id))
    assert told["sent_again"] == [
        {"token": "0", "event": NAME, "document": one.part, "event_id": one.event_id, "at": iso(at_ms)}
        for at_ms, one in came[1:]
        if one
    ]
    assert [one["event_id"] for one in told["sent_again"]] == ["photo-1", "card-1", "cv-2"]
    assert run_now(world.service.redrive_foretold(run_id, "papers"))["sent_again"] == []
    redriven(world, run_id)
    assert run_now(world.service.redrive_foretold(run_id))["sent_again"] == told["sent_again"]


def test_a_document_that_is_sent_again_under_its_id_is_taken_once() -> None:
    world, run_id = late()
    again = redriven(world, run_id)
    world.pass_time(HOUR_MS)
    records = len(run_now(world.service.records(again)))
    send(world, NAME, sent("card"), run_id=again, event_id="card-1")
    assert len(run_now(world.service.records(again))) == records
    send(world, NAME, sent("visa"), key="ana")
    assert urls(world, again) == WHOLE


def test_no_other_run_that_waits_for_the_same_gets_them() -> None:
    world, run_id = late()
    other = world.start()
    world.pass_time(HOUR_MS)
    again = redriven(world, run_id)
    world.pass_time(HOUR_MS)
    assert (parts(world, other), parts(world, again)) == ([], ["photo", "card", "cv"])


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
    assert parts(world, again) == ["photo", "card", "cv"]
    send(world, NAME, sent("visa"), key="ana")
    assert urls(world, again) == WHOLE


@pytest.mark.parametrize("done", [False, True], ids=["before it", "after it"])
def test_a_caller_that_dies_at_any_call_and_asks_again_loses_none(done: bool) -> None:
    for world, run_id in killed(late, redriven, done=done, least=8):
        world.pass_time(60_000)
        again = redriven(world, run_id)
        world.pass_time(HOUR_MS)
        assert parts(world, again) == ["photo", "card", "cv"]
        send(world, NAME, sent("visa"), key="ana")
        assert urls(world, again) == WHOLE


def test_a_version_that_asks_for_less_takes_what_it_asks_for() -> None:
    world, run_id = late()
    world.catalog.replace([graph_of(FLOW % KEYED.replace("cv, photo, card, visa", "photo, visa"))])
    again = redriven(world, run_id)
    world.pass_time(HOUR_MS)
    assert parts(world, again) == ["photo"]


def test_from_the_wait_itself_it_begins_with_nothing() -> None:
    world, run_id = late()
    again = redriven(world, run_id, since="papers")
    world.pass_time(HOUR_MS)
    assert parts(world, again) == []


def test_of_several_waits_the_events_are_kept_and_people_are_asked_again() -> None:
    world = World(FLOW % EACH)
    run_id = world.start()
    world.pass_time(HOUR_MS)
    send(world, "paid", {"amount": 5}, key="ana")
    run_now(world.service.approve(run_id))
    world.pass_time(DAY_MS)
    again = redriven(world, run_id)
    world.pass_time(HOUR_MS)
    assert [(one.kind, one.arm) for one in world.token(again).received] == [("event", 1)]
    send(world, "packed", {}, key="ana")
    assert world.header(again).status == "waiting"
    run_now(world.service.approve(again))
    world.pass_time(HOUR_MS)
    assert world.header(again).status == "completed"


@pytest.mark.parametrize("is_own", [False, True], ids=["for everybody", "for the run alone"])
def test_an_event_that_is_not_consumed_is_sent_only_where_the_new_run_does_not_find_it(is_own: bool) -> None:
    """Two arms want a price each: the same one must not be both."""
    stays = "events: {price: {consume_on_read: false}}\n"
    price = EVENTS % "price"
    world = World((FLOW % f"{{all: [{price}, {price[:-1]}, match: 'event > 5'}}], timeout: 1d}}") + stays)
    run_id = world.start()
    world.pass_time(HOUR_MS)
    send(world, "price", 3, event_id="e-3", **({"run_id": run_id} if is_own else {"key": "ana"}))
    world.pass_time(DAY_MS)
    again = redriven(world, run_id)
    sent_again = run_now(world.store.pending_events(run_topic("price", again), world.clock.now_ms()))
    assert [one.id for one in sent_again] == (["e-3"] if is_own else [])
    world.pass_time(HOUR_MS)
    assert [(one.arm, one.event_id) for one in world.token(again).received] == [(0, "e-3")]


def test_a_run_that_was_cancelled_while_it_waited_has_what_came() -> None:
    world = World(FLOW % PAPERS)
    run_id = world.start()
    world.pass_time(HOUR_MS)
    send(world, NAME, sent("cv"), run_id=run_id)
    run_now(world.service.cancel(run_id))
    world.pass_time(HOUR_MS)
    again = redriven(world, run_id)
    world.pass_time(HOUR_MS)
    assert parts(world, again) == ["cv"]


def test_votes_are_asked_for_again() -> None:
    """Who agreed, agreed to what the failed run asked."""
    world = World(FLOW % "{for: approval, approvers: {of: [ana, bea], need: 2}, timeout: 1d}")
    run_id = world.start()
    world.pass_time(HOUR_MS)
    run_now(world.service.approve(run_id, who="ana"))
    world.pass_time(DAY_MS)
    again = redriven(world, run_id)
    world.pass_time(HOUR_MS)
    assert parts(world, again) == []


def test_an_event_that_came_before_the_run_came_to_its_wait_is_not_lost() -> None:
    """It was sent to the failed run alone, so nobody else has it."""
    steps = "  begin: {run: python:m.begin, transitions: [{to: paid}]}\n"
    world = World("workflow: flow\nnodes:\n" + steps + f"  paid: {{wait: {EVENTS % 'paid'}}}\n")
    world.steps.of["begin"] = lambda _: fails()
    run_id = world.start()
    send(world, "paid", {"amount": 5}, run_id=run_id, event_id="e-1")
    assert world.header(run_id).status == "failed"
    world.steps.of["begin"] = lambda _: None
    told = run_now(world.service.redrive_foretold(run_id))["sent_again"]
    assert [(one["token"], one["event"], one["document"], one["event_id"]) for one in told] == [
        ("0", "paid", "", "e-1")
    ]
    again = redriven(world, run_id)
    world.pass_time(HOUR_MS)
    assert (world.header(again).status, world.token(again).scope["paid"]) == ("completed", {"amount": 5})


@pytest.mark.parametrize("kept", [False, True])
def test_an_event_whose_message_comes_after_the_redrive_is_not_lost(
    kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was sent while the run was under way. DynamoDB does not tell its topic before its message has come."""
    world = World("workflow: flow\nnodes:\n  begin: {run: python:m.begin, transitions: [{to: paid}]}\n"
                  f"  paid: {{wait: {EVENTS % 'paid'}}}\n")  # fmt: skip
    world.steps.of["begin"] = lambda call: fails() if call.run_id == run_id else None
    run_id = world.start()
    world.deliver()
    event = Event(run_topic("paid", run_id), "e-1", 5, world.clock.now_ms(), world.clock.now_ms() + DAY_MS)
    if kept:
        run_now(world.store.inner.put_event(event))
    monkeypatch.setattr(world.store.inner, "topics_to", nothing)
    again = redriven(world, run_id)
    third = redriven(world, _failed(world, again))
    world.send(Lane.RESUME, to_json(Publish(event, kept=kept)))
    world.pass_time(HOUR_MS)
    assert (world.header(third).status, world.token(third).scope["paid"]) == ("completed", 5)


async def nothing(_: str) -> list[Topic]:
    return []


def _failed(world: World, run_id: str) -> str:
    world.deliver()
    run_now(world.service.cancel(run_id))
    world.deliver()
    return run_id


def test_an_event_that_stays_is_not_sent_on_to_a_redriven_run_that_has_had_it() -> None:
    """Its message comes twice."""
    stays = "events: {price: {consume_on_read: false}}\n"
    price = "wait: {for: event, name: price, timeout: 1d}"
    world = World(f"workflow: flow\n{stays}timeline: [{{name: one, {price}}}, {{name: two, {price}}}]")
    run_id = world.start()
    world.deliver()
    event = Event(run_topic("price", run_id), "e-1", 5, world.clock.now_ms(), world.clock.now_ms() + 9 * DAY_MS)
    world.send(Lane.RESUME, to_json(Publish(event)))
    world.pass_time(2 * DAY_MS)
    again = redriven(world, run_id)
    world.send(Lane.RESUME, to_json(Publish(event)))
    world.pass_time(HOUR_MS)
    assert (world.header(again).status, world.token(again).node) == ("waiting", "two")


def test_an_event_that_stays_is_not_sent_again_if_a_wait_that_is_kept_has_had_it() -> None:
    stays = "events: {price: {consume_on_read: false}}\n"
    flow = "workflow: flow\ntimeline:\n" + "".join(
        f"  - {{name: {name}, wait: {{for: event, name: price, timeout: 1d}}}}\n" for name in ("first", "second")
    )
    world = World(flow + stays)
    run_id = world.start()
    world.pass_time(HOUR_MS)
    send(world, "price", 3, event_id="e-3", run_id=run_id)
    world.pass_time(2 * DAY_MS)
    assert world.header(run_id).status == "timed_out"
    assert run_now(world.service.redrive_foretold(run_id))["sent_again"] == []


@pytest.mark.parametrize("names", [("paid",), ("paid", "packed")])
def test_a_run_that_was_cancelled_before_it_went_on_has_what_completed_its_wait(names: tuple[str, ...]) -> None:
    """It was paused: the wait took the events, and nothing has used them."""
    arms = ", ".join(EVENTS % name for name in names)
    world = World(FLOW % (f"{{all: [{arms}], timeout: 1d}}" if len(names) > 1 else arms))
    run_id = world.start()
    world.pass_time(HOUR_MS)
    run_now(world.service.pause(run_id))
    for name in names:
        send(world, name, {"of": name}, key="ana")
    run_now(world.service.cancel(run_id))
    world.pass_time(HOUR_MS)
    again = redriven(world, run_id)
    world.pass_time(HOUR_MS)
    assert world.header(again).status == "completed"


@pytest.mark.parametrize("tries", [1, 2])
def test_a_step_that_asked_for_an_event_and_failed_is_given_that_of_its_last_attempt(tries: int) -> None:
    """It asks again, as its visit begins anew. What an attempt had before was of no use to the last one either."""
    retry = ", retry: {max_retries: 1, initial_delay: 1s}" if tries > 1 else ""
    world = World(f"workflow: flow\ntimeline:\n  - {{name: ask, run: python:m.ask{retry}}}\n")
    broken, given = [True], list[Any]()

    def ask(call: Any) -> Any:
        if call.resumed is None:
            return Outcome(pause=Pause("event", "paid", then="again"))
        given.append(call.resumed)
        return fails(category="transient" if len(given) < tries else "step") if broken[0] else "done"

    world.steps.of["ask"] = ask
    run_id = world.start()
    world.pass_time(HOUR_MS)
    for number in range(tries):
        send(world, "paid", {"number": number}, run_id=run_id)
    assert world.header(run_id).status == "failed"
    broken[0] = False
    again = redriven(world, run_id)
    world.pass_time(HOUR_MS)
    assert world.header(again).status == "completed"
    assert [one["number"] for one in given] == [*range(tries), tries - 1]


def test_a_function_that_waits_for_all_of_several_has_what_came(tmp_path: Path) -> None:
    (tmp_path / "orders.py").write_text(FUNCTION)
    kit = Stepwell(tmp_path)
    run = kit.start("order")
    run.event("paid", {"amount": 5})
    kit.advance("2d")
    assert run.status in {"failed", "timed_out"}
    again = run.redrive()
    kit.advance("23h")
    again.event("packed", {"boxes": 1})
    assert (again.status, again.result) == ("completed", [{"amount": 5}, {"boxes": 1}])
    kit.close()
