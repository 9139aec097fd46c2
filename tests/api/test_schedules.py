"""Schedules over HTTP: made, listed with their next times, deleted; and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell.engine.names import iso
from stepwell.limits import SCHEDULES
from tests.api.kit import START_MS, Reply, World, event, graph_of

MINUTE_MS = 60_000
NIGHTLY = """
workflow: nightly
input_schema: {type: object, required: [day]}
triggers:
  - {event: order.created}
  - {schedule: "cron(30 2 * * ? *)", timezone: Europe/Madrid, catch_up: 1h}
timeline: [{name: a, run: python:shop.ship}]
"""
GATHERS = """
workflow: gathers
batch: {max_size: 3, max_delay: 1m}
input_schema: {type: object, required: [day]}
timeline: [{name: a, run: python:shop.ship}]
"""
OFTEN = {"name": "often", "workflow": "nightly", "schedule": "rate(5 minutes)", "input": {"day": 1}}


@pytest.fixture
def world() -> World:
    return World(NIGHTLY)


def delete(world: World, name: str) -> Reply:
    return world.send(event("DELETE", f"/schedules/{name}"))


def listed(world: World) -> dict[str, Any]:
    return {one["name"]: one for one in world.get("/schedules").json["items"]}


def test_a_definitions_schedule_is_listed_with_its_next_times(world: World) -> None:
    schedule = listed(world)["nightly:1"]
    assert (schedule["workflow"], schedule["schedule"], schedule["timezone"], schedule["source"]) == (
        "nightly", "cron(30 2 * * ? *)", "Europe/Madrid", "definition"
    )  # fmt: skip
    assert (schedule["overlap"], schedule["catch_up"], schedule["last_run_id"]) == ("skip", 3600, None)
    assert len(schedule["next"]) == 3
    assert all(moment.endswith(("T00:30:00.000Z", "T01:30:00.000Z")) for moment in schedule["next"])


def test_a_schedule_that_is_made_is_listed_and_the_same_body_again_is_the_same_one(world: World) -> None:
    made = world.post("/schedules", OFTEN)
    assert made.status == 201
    assert made.json["next"] == [iso(START_MS + count * 5 * MINUTE_MS) for count in (1, 2, 3)]
    world.clock.advance(MINUTE_MS)
    again = world.post("/schedules", OFTEN)
    assert (again.status, again.json["created_at"]) == (200, iso(START_MS))
    assert listed(world)["often"]["input"] == {"day": 1}
    other = world.post("/schedules", {**OFTEN, "overlap": "allow"})
    assert (other.status, other.json["code"]) == (409, "already_used")


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ("", "the input violates input_schema: "),
        (', input: {day: "{{ event.scheduled_at }}"}', None),
        (', input: {day: "{{ event.unheard_of }}"}', "there is no key 'unheard_of'"),
    ],
)
def test_a_definitions_schedule_that_would_start_nothing_says_why(given: str, error: str | None) -> None:
    found = listed(World(NIGHTLY.replace("catch_up: 1h", f"catch_up: 1h{given}")))["nightly:1"]["error"]
    assert found is None if error is None else found.startswith(error)


def test_a_schedule_that_would_start_nothing_says_why(world: World) -> None:
    """Else only the log tells it, at each firing."""
    world.post("/workflows/nightly/aliases", {"alias": "stable"})
    world.post("/schedules", {**OFTEN, "version": "stable"})
    assert listed(world)["often"]["error"] is None
    world.delete("/workflows/nightly/aliases/stable")
    shown = listed(world)
    assert shown["often"]["error"] == "nightly has no version or alias 'stable'"
    delete(world, "often")
    world.post("/schedules", OFTEN)
    world.parts.catalog.replace([])
    assert listed(world)["often"]["error"] == "there is no workflow 'nightly'"


@pytest.mark.parametrize("place", ["/workflows/nightly/", "/workflows:"])
def test_a_schedule_says_that_its_workflow_is_paused(world: World, place: str) -> None:
    assert listed(world)["nightly:1"]["workflow_paused"] is None
    world.post(f"{place}pause", {"by": "ana"})
    assert listed(world)["nightly:1"]["workflow_paused"]["by"] == "ana"
    world.post(f"{place}unpause")
    assert listed(world)["nightly:1"]["workflow_paused"] is None


def test_a_schedule_of_a_batch_has_the_input_of_one_start() -> None:
    """Each firing is one start among others, so it has no list of `items`."""
    world = World(GATHERS)
    assert world.post("/schedules", {**OFTEN, "workflow": "gathers"}).status == 201
    assert listed(world)["often"]["error"] is None
    assert world.post("/schedules", {**OFTEN, "workflow": "gathers", "input": {"items": [{"day": 1}]}}).status == 422


def test_a_schedule_whose_starts_cannot_be_gathered_is_refused_as_such_a_start_is() -> None:
    """Else each of its firings would be refused, and only the log would tell it."""
    world = World(GATHERS.replace("max_delay: 1m", "max_delay: 1m, key: '{{ input.customer }}'"))
    start = world.post("/workflows/gathers/runs", {"input": {"day": 1}})
    schedule = {**OFTEN, "workflow": "gathers"}
    made = world.post("/schedules", schedule)
    assert (made.status, made.json["code"]) == (start.status, start.json["code"]) == (422, "bad_key")
    assert (made.json["detail"], made.json["hint"]) == (start.json["detail"], start.json["hint"])
    assert "often" not in listed(world)
    assert world.post("/schedules", {**schedule, "input": {"day": 1, "customer": "ana"}}).status == 201
    assert listed(world)["often"]["error"] is None


def test_the_input_of_a_schedule_is_checked_against_the_version_that_it_names(world: World) -> None:
    world.post("/workflows/nightly/aliases", {"alias": "stable"})
    world.parts.catalog.replace([graph_of(NIGHTLY.replace("[day]", "[week]"))])
    old = world.post("/schedules", {**OFTEN, "version": "stable"})
    assert (old.status, listed(world)["often"]["error"]) == (201, None)
    wrong = world.post("/schedules", {**OFTEN, "name": "other", "version": "stable", "input": {"week": 1}})
    assert (wrong.status, wrong.json["errors"][0]["message"]) == (422, "lacks day")


def test_a_schedule_that_is_deleted_is_gone_and_its_name_is_free(world: World) -> None:
    world.post("/schedules", OFTEN)
    assert delete(world, "often").status == 204
    assert "often" not in listed(world)
    assert delete(world, "often").json["code"] == "unknown_schedule"
    assert world.post("/schedules", {**OFTEN, "schedule": "0 9 * * *"}).status == 201


@pytest.mark.parametrize("name", ["often", "nightly:1"])
def test_a_schedule_is_paused_once_and_unpaused_once(world: World, name: str) -> None:
    world.post("/schedules", OFTEN)
    paused = world.post(f"/schedules/{name}/pause", {"reason": "the move", "by": "ana"})
    assert (paused.status, paused.json["paused"]) == (200, {"since": iso(START_MS), "by": "ana", "reason": "the move"})
    world.clock.advance(MINUTE_MS)
    second = world.post(f"/schedules/{name}/pause", {"by": "leo"}).json
    assert second["paused"] == paused.json["paused"]
    assert (paused.json["paused_before"], second["paused_before"]) == (False, True)
    assert [one for one, schedule in listed(world).items() if schedule["paused"]] == [name]
    assert world.post(f"/schedules/{name}/unpause", {}).json["paused"] is None
    again = world.post(f"/schedules/{name}/unpause", {})
    assert (again.status, again.json["code"]) == (409, "not_paused")
    assert listed(world)[name]["paused"] is None


def test_the_pause_of_a_schedule_that_is_deleted_is_gone_with_it(world: World) -> None:
    world.post("/schedules", OFTEN)
    world.post("/schedules/often/pause", {})
    delete(world, "often")
    assert world.post("/schedules", OFTEN).json["paused"] is None


def test_a_schedule_is_fired_now_whatever_its_pause_and_its_last_run_say(world: World) -> None:
    world.post("/schedules", OFTEN)
    world.post("/schedules/often/pause", {})
    first = world.post("/schedules/often/fire", {})
    assert (first.status, first.json["workflow"], first.json["input"]) == (201, "nightly", {"day": 1})
    world.clock.advance(1)
    assert world.post("/schedules/often/fire", {}).json["run_id"] != first.json["run_id"]


def test_a_schedule_is_fired_for_a_time_that_has_passed_once(world: World) -> None:
    world.post("/schedules", OFTEN)
    body = {"at": iso(START_MS - 3_600_000)}
    first, again = world.post("/schedules/often/fire", body), world.post("/schedules/often/fire", body)
    assert (first.status, again.status, again.json["run_id"]) == (201, 200, first.json["run_id"])
    old = {"at": "1970-01-01T00:00:00Z"}  # a time like any other, and not that of the call
    assert [world.post("/schedules/often/fire", old).status for _ in range(2)] == [201, 200]
    early = world.post("/schedules/often/fire", {"at": iso(START_MS + 1)})
    assert (early.status, early.json["code"]) == (422, "bad_time")


def test_a_definitions_schedule_is_fired_with_the_input_of_that_time(world: World) -> None:
    refused = world.post("/schedules/nightly:1/fire", {})
    assert (refused.status, refused.json["code"]) == (422, "invalid_input")  # its input has no `day`
    world = World(NIGHTLY.replace("catch_up: 1h", 'input: {day: "{{ event.scheduled_at }}"}'))
    at = iso(START_MS - 86_400_000)
    assert world.post("/schedules/nightly:1/fire", {"at": at}).json["input"] == {"day": at}


@pytest.mark.parametrize("act", ["pause", "unpause", "fire"])
@pytest.mark.parametrize("name", ["none", "nightly:7", "%20"])
def test_what_is_no_schedule_is_told(world: World, act: str, name: str) -> None:
    refused = world.post(f"/schedules/{name}/{act}", {})
    assert (refused.status, refused.json["code"]) == (404, "unknown_schedule")


def test_a_definitions_schedule_cannot_be_deleted(world: World) -> None:
    refused = delete(world, "nightly:1")
    assert (refused.status, refused.json["code"]) == (409, "of_definition")


@pytest.mark.parametrize(
    ("changes", "status", "code"),
    [
        ({"workflow": "none"}, 404, "unknown_workflow"),
        ({"name": "a b"}, 422, "bad_name"),
        ({"name": "nightly:1"}, 422, "bad_name"),
        ({"name": "x" * 65}, 422, "bad_name"),
        ({"schedule": "0 9 15W * *"}, 422, "unsupported_schedule"),
        ({"schedule": "sometimes"}, 422, "bad_schedule"),
        ({"schedule": "cron(0 9 ? * MON 2020)"}, 422, "bad_schedule"),
        ({"schedule": "cron(0 0 29 2 ? 2127)"}, 422, "bad_schedule"),
        ({"timezone": "Mars"}, 422, "bad_timezone"),
        ({"overlap": "queue"}, 422, "invalid_input"),
        ({"catch_up": "soon"}, 422, "invalid_input"),
        ({"catch_up": -1}, 422, "invalid_input"),
        ({"catch_up": [1]}, 422, "invalid_input"),
        ({"input": {"night": 1}}, 422, "invalid_input"),
        ({"input": {"day": "x" * 20_001}}, 422, "input_too_large"),
        ({"more": 1}, 422, "invalid_input"),
        ({"name": None}, 422, "invalid_input"),
    ],
)
def test_what_cannot_be_a_schedule_is_refused_and_not_kept(
    world: World, changes: dict[str, Any], status: int, code: str
) -> None:
    refused = world.post("/schedules", {**OFTEN, **changes})
    assert (refused.status, refused.json["code"]) == (status, code)
    assert list(listed(world)) == ["nightly:1"]


def test_a_wrong_field_of_a_schedule_is_named(world: World) -> None:
    for field, wrong in (("schedule", "sometimes"), ("timezone", "Mars")):
        body = {"name": "nightly", "workflow": "quick", "schedule": "rate(1 hour)", field: wrong}
        assert world.post("/schedules", body).json["errors"][0]["path"] == f"/{field}"


def test_catch_up_is_a_duration_or_seconds(world: World) -> None:
    assert world.post("/schedules", {**OFTEN, "catch_up": "1h"}).json["catch_up"] == 3600
    assert world.post("/schedules", {**OFTEN, "name": "b", "catch_up": 90}).json["catch_up"] == 90


def test_schedules_are_bounded(world: World) -> None:
    for number in range(SCHEDULES):
        assert world.post("/schedules", {**OFTEN, "name": f"s{number}"}).status == 201
    refused = world.post("/schedules", {**OFTEN, "name": "one-more"})
    assert (refused.status, refused.json["code"]) == (409, "too_many_schedules")
    assert world.post("/schedules", {**OFTEN, "name": "s7"}).status == 200


def test_a_misspelt_schedule_is_answered_with_the_nearest() -> None:
    world = World("workflow: flow\ntriggers: [{schedule: rate(5 minutes)}]\ntimeline: [{name: a, run: python:m.a}]")
    for name in ("flow", "flwo:1"):
        assert world.post(f"/schedules/{name}/pause", {}).json["hint"] == "did you mean `flow:1`?"
