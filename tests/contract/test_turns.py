"""The order of events, on every store: a wait takes the oldest that is pending, across names."""

from __future__ import annotations

import pytest

from stepwell.runtime.loop.driving import run_now
from tests.contract.kit import Store
from tests.runtime.kit import World

GRAPH = """
workflow: flow
nodes:
  one: {wait: &any {any: [{for: event, name: a, key: k}, {for: event, name: b, key: k}]}, transitions: [{to: two}]}
  two: {wait: *any}
"""
AGENT = """
agent: flow
actions:
  - {id: one, actionType: wait_for_any, parameters: &any {any: [
      {actionType: wait_for_event, parameters: {name: a, key: k}},
      {actionType: wait_for_event, parameters: {name: b, key: k}}]}}
  - {id: two, actionType: wait_for_any, parameters: *any}
"""


@pytest.mark.parametrize("names", ["ab", "ba"])
@pytest.mark.parametrize("definition", [GRAPH, AGENT], ids=["graph", "agent"])
def test_a_wait_for_any_of_several_events_takes_the_oldest_pending(store: Store, definition: str, names: str) -> None:
    """An id that would come first is no reason to be first; what is left is for the next wait."""
    world = World(definition)
    world.store.inner = store
    for name, event_id in zip(names, ("e9", "e8"), strict=True):
        run_now(world.service.send_event(name, f"{name} came", key="k", event_id=event_id))
        world.clock.advance(1)
    run_id = world.start("flow")
    world.deliver()
    steps = world.token(run_id).steps
    assert [steps[node].output["result"] for node in ("one", "two")] == [f"{name} came" for name in names]
