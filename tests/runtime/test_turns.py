"""The order of events: a wait takes the oldest that is pending, whatever its name, and whatever message comes first."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import pytest

from stepwell.engine.waits import event_topic
from stepwell.memory.inbox import ALL_LANES, Delivery
from stepwell.runtime.dispatch import dispatch
from stepwell.runtime.log.door import Unlimited
from stepwell.runtime.loop.driving import run_now
from stepwell.testing.kit import Run, Stepwell
from tests.runtime.kit import World

ANY = "{any: [{for: event, name: a, key: k}, {for: event, name: b, key: k}]}"
GRAPH = f"workflow: graph\nnodes: {{hold: {{wait: {ANY}}}}}"
TWICE = f"workflow: graph\nnodes: {{one: {{wait: {ANY}, transitions: [{{to: two}}]}}, two: {{wait: {ANY}}}}}"
AGENT = """
workflow: agent
actions:
  - {actionType: wait_for_response, id: heard, parameters: {threadId: "{{ thread }}"}}
"""
FUNCTION = """
from stepwell import workflow

@workflow
async def function(ctx):
    await ctx.sleep(60)
    a, b = await ctx.first(ctx.event("a", key="k"), ctx.event("b", key="k"))
    rest = await (ctx.event("b", key="k") if b is None else ctx.event("a", key="k"))
    return [a or b, rest]
"""
ORDERS = pytest.mark.parametrize("names", ["ab", "ba"])


@pytest.fixture
def kit(tmp_path: Path) -> Stepwell:
    (tmp_path / "flows.py").write_text(FUNCTION)
    return Stepwell(tmp_path)


def send_both(kit: Stepwell, names: str) -> None:
    """One after the other. An id that would come first is no reason to be first."""
    for name, number in zip(names, count(1)):
        kit.event(name, f"{name}{number}", key="k", event_id=f"e{9 - number}")
        kit.advance(1)


@ORDERS
def test_a_wait_of_a_graph_takes_the_oldest_pending_event(kit: Stepwell, names: str) -> None:
    kit.define(GRAPH)
    send_both(kit, names)
    run = kit.start("graph")
    assert (run.status, _taken(run)) == ("completed", [f"{names[0]}1"])


@ORDERS
def test_what_is_left_is_for_the_next_wait(kit: Stepwell, names: str) -> None:
    kit.define(TWICE)
    send_both(kit, names)
    run = kit.start("graph")
    assert (run.status, _taken(run)) == ("completed", [f"{names[0]}1", f"{names[1]}2"])


@ORDERS
def test_a_durable_function_takes_the_oldest_pending_event_and_leaves_the_others(kit: Stepwell, names: str) -> None:
    """Of `ctx.first` over two events: the one that loses is there for a later wait."""
    run = kit.start("function")
    assert run.phase == "sleeping"
    send_both(kit, names)
    kit.advance("1m")
    assert (run.status, run.result) == ("completed", [f"{names[0]}1", f"{names[1]}2"])


# -- messages that overtake each other


@ORDERS
def test_an_event_whose_message_is_late_is_taken_first(names: str) -> None:
    """By a wait that has stood there for long."""
    world = World(GRAPH)
    run_id = world.start("graph")
    world.deliver()
    first, second = sent(world, names, key="k")
    handle(world, second)
    assert world.header(run_id).status == "waiting"
    handle(world, first)
    world.pass_time(2_000)
    assert world.header(run_id).status == "completed"
    assert _result(world.token(run_id).steps["hold"].output) == f"{names[0]}1"
    pending = run_now(world.store.pending_events(event_topic(names[1], "k"), 0))
    assert [event.payload for event in pending] == [f"{names[1]}2"]


def test_the_later_one_has_its_turn_when_the_message_of_the_first_is_lost() -> None:
    """It has the wait take the first, and sends a message in the place of the lost one."""
    world = World(TWICE)
    run_id = world.start("graph")
    world.deliver()
    _, second = sent(world, "ab", key="k")
    handle(world, second)
    world.pass_time(2_000)
    assert world.header(run_id).status == "completed"
    outputs = {name: _result(step.output) for name, step in world.token(run_id).steps.items()}
    assert outputs == {"one": "a1", "two": "b2"}


def test_fifty_events_at_once_for_fifty_waits_cost_at_most_three_messages_each() -> None:
    """Nobody sends the events of others again and again: the first of the waits take the first of the events."""
    world = World("workflow: graph\nnodes: {hold: {wait: {for: event, name: a, key: k}}}")
    runs = []
    for _ in range(50):
        runs.append(world.start("graph"))
        world.deliver()
        world.clock.advance(1)
    messages = sent(world, "a" * 50, key="k")
    for one in reversed(messages):
        handle(world, one)
    delivered = world.deliver()
    outputs = [world.token(run_id).steps["hold"].output for run_id in runs]
    assert outputs == [f"a{number}" for number in range(1, 51)]
    world.clock.advance(10_000)
    assert delivered + world.deliver() < 3 * len(messages)


def test_an_agent_takes_the_answers_of_a_thread_in_the_order_in_which_they_came() -> None:
    world = World(AGENT)
    run_id = world.start("agent", {"thread": "t1"})
    world.deliver()
    first, second = sent(world, ["MESSAGE_RECEIVED", "MESSAGE_RECEIVED"], key="t1")
    handle(world, second)
    assert world.header(run_id).status == "waiting"
    handle(world, first)
    world.deliver()
    assert world.token(run_id).steps["heard"].output == "MESSAGE_RECEIVED1"


def sent(world: World, names: Any, key: str) -> list[Delivery]:
    """Events, one after the other, and their messages."""
    for name, number in zip(names, count(1)):
        run_now(world.service.send_event(name, f"{name}{number}", key=key))
        world.clock.advance(1)
    found = [world.queue.receive(ALL_LANES, world.clock.now_ms(), 60_000) for _ in names]
    for one in found:
        assert one is not None
        world.queue.delete(one)
    return [one for one in found if one is not None]


def handle(world: World, one: Delivery) -> None:
    run_now(dispatch(world.parts, one.lane, one.message, Unlimited(one.deliveries)))


def _taken(run: Run) -> list[Any]:
    """What the waits were ended by, in order."""
    return [_result(step.output) for step in run.steps.values()]


def _result(output: Any) -> Any:
    """What came, of the wait's arm that was ended."""
    return output["result"]
