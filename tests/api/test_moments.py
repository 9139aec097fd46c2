"""The state of a run at any point of its log, and what each record changed."""

from __future__ import annotations

from urllib.parse import parse_qsl

import pytest

from stepwell.definition.graph import Json
from tests.api.kit import World


def at(world: World, run_id: str, slot: int) -> Json:
    return world.get(f"/runs/{run_id}/state", at=slot).json


def test_each_slot_shows_the_state_after_its_record_and_what_it_changed(world: World) -> None:
    run_id = world.start(input={"amount": 5})
    world.post(f"/runs/{run_id}/approve", {"by": "ana"})
    world.drain()
    world.advance(60)
    charged, asked = at(world, run_id, 0), at(world, run_id, 1)
    assert charged["state"] == {"charge": {"charged": 5}}
    assert {"op": "add", "path": "/state/charge", "before": None, "value": {"charged": 5}} in charged["changes"]
    assert (asked["status"], asked["current_steps"], asked["states"]) == (
        "waiting",
        ["approve"],
        {"charge": "completed", "approve": "waiting"},
    )
    assert [change["path"] for change in asked["changes"]] == ["/status", "/steps/approve"]
    last = world.get(f"/runs/{run_id}/state").json
    assert (last["slot"], last["last_slot"], last["status"]) == (last["last_slot"], last["slot"], "completed")
    assert {"op": "replace", "path": "/result", "before": None, "value": {"shipped": True}} in last["changes"]


def test_the_last_slot_shows_what_the_run_shows(world: World) -> None:
    run_id = world.start(input={"amount": 5})
    run, state = world.get(f"/runs/{run_id}").json, world.get(f"/runs/{run_id}/state").json
    names = ("status", "phase", "state", "steps", "current_steps")
    assert [state[name] for name in names] == [run[name] for name in names]
    assert state["states"] == world.get(f"/runs/{run_id}/graph", format="json").json["states"]


def test_a_run_without_a_record_has_a_state_and_no_change(world: World) -> None:
    state = at(world, world.start(create_only=True), 0)
    assert (state["slot"], state["last_slot"], state["changes"]) == (-1, -1, [])


@pytest.mark.parametrize(("slot", "code"), [(99, "unknown_slot"), (-1, "invalid_input")])
def test_a_slot_that_the_log_does_not_have_is_refused(world: World, slot: int, code: str) -> None:
    reply = world.get(f"/runs/{world.start()}/state", at=slot)
    assert (reply.status, reply.json["code"]) == (422, code)


def test_looking_back_writes_nothing(world: World) -> None:
    run_id = world.start(input={"amount": 5})
    before = world.stored()
    at(world, run_id, 0)
    assert world.stored() == before


def test_a_large_value_of_a_change_stands_as_its_size(world: World) -> None:
    """A reader who moves along a log is not sent its largest values at each step."""
    run_id = world.start(input={"amount": 5})
    world.post(f"/runs/{run_id}/approve", {"by": "ana", "data": "x" * 20_000})
    world.drain()
    changes = at(world, run_id, 3)["changes"]
    large = next(one["large"] for one in (change["value"] for change in changes) if one and "large" in one)
    assert large["bytes"] == 20_044
    path, _, query = large["link"].partition("?")
    assert world.get(path, **dict(parse_qsl(query))).json["value"]["data"] == "x" * 20_000
    assert len(str(changes)) < 10_000
