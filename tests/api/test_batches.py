"""POST /runs:batch: one action on many runs, which answers with the run that does it."""

from __future__ import annotations

import pytest

from stepwell.definition.graph import Json
from tests.api.kit import World


def started(world: World, action: str, chosen: Json, **body: Json) -> Json:
    reply = world.post("/runs:batch", {"filter": chosen, "action": action, **body})
    assert reply.status == 202, reply.text
    return reply.json


def test_a_batch_answers_at_once_with_its_run_which_has_the_report_in_the_end() -> None:
    world = World()
    ids = [world.start("paid", input={"order": str(number)}, tags={"customer": "c1"}) for number in range(3)]
    other = world.start("paid", input={"order": "x"})
    world.drain()
    chosen = {"tag": "customer=c1", "status": ["waiting"], "workflow": "paid", "since": "2020-01-01T00:00:00Z"}
    job = started(world, "cancel", chosen, reason="closed", by="ana")
    assert (job["workflow"], job["status"]) == ("stepwell:batch", "pending")
    world.drain()
    seen = world.get(f"/runs/{job['run_id']}").json
    assert (seen["status"], seen["state"]["report"]["done"]) == ("completed", 3)
    ended = [world.get(f"/runs/{run_id}").json for run_id in ids]
    assert {(one["status"], one["cancel_reason"], one["cancelled_by"]) for one in ended} == {
        ("cancelled", "closed", "ana")
    }
    assert world.get(f"/runs/{other}").json["status"] == "waiting"


def test_the_workflow_of_batches_is_shown_only_to_who_asks_for_it_by_name() -> None:
    world = World()
    assert "stepwell:batch" not in [one["name"] for one in world.get("/workflows").json["items"]]
    assert world.get("/workflows/stepwell:batch").json["name"] == "stepwell:batch"
    assert world.post("/workflows/stepwell:batch/runs", {}).json["code"] == "internal_workflow"


def test_a_batch_that_cannot_be_is_refused() -> None:
    world = World()

    def code(body: Json) -> Json:
        reply = world.post("/runs:batch", body)
        assert reply.status == 422
        return reply.json["code"]

    assert code({"filter": {}, "action": "cancel"}) == "empty_filter"
    assert code({"filter": {"workflow": "paid"}, "action": "cancel", "canary": True}) == "no_canary"
    assert code({"filter": {"tag": "x"}, "action": "cancel"}) == "bad_tag"
    for wrong in (
        {"action": "explode"},
        {"rate": -1},
        {"rate": 1e9},
        {"filter": {"colour": "red"}},
        {"filter": {"status": ["lost"]}},
    ):
        assert code({"filter": {"workflow": "paid"}, "action": "cancel", **wrong})


@pytest.mark.parametrize(("name", "value"), [("tag", ""), ("workflow", ""), ("failure", ""), ("status", [])])
def test_an_empty_part_of_a_filter_is_refused_and_nothing_is_done(name: str, value: Json) -> None:
    """As of a variable that is not set: the rest of the filter would name more runs than were meant."""
    world = World()
    run_id = world.start("paid", input={"order": "1"}, tags={"customer": "c1"})
    world.drain()
    beside = {"tag": "customer=c1"} if name == "workflow" else {"workflow": "paid"}
    refused = world.post("/runs:batch", {"filter": {**beside, name: value}, "action": "cancel"})
    assert (refused.status, refused.json["code"]) == (422, "empty_filter")
    assert refused.json["detail"] == f"the filter's `{name}` is empty, so it would leave no run out"
    world.drain()
    assert world.get(f"/runs/{run_id}").json["status"] == "waiting"


def test_a_batch_of_the_runs_before_all_time_does_nothing() -> None:
    """As the list of such runs is empty. It took all runs, because 0 was no time."""
    world = World()
    run_id = world.start("paid", input={"order": "1"})
    world.drain()
    begun = started(world, "cancel", {"workflow": "paid", "before": "1970-01-01T00:00:00Z"})
    world.drain()
    assert world.get(f"/runs/{run_id}").json["status"] == "waiting"
    assert world.get(f"/runs/{begun['run_id']}").json["state"]["report"]["matched"] == 0


def test_a_filter_takes_one_status_as_it_is() -> None:
    world = World()
    run_id = world.start("paid", input={"order": "1"})
    world.drain()
    started(world, "cancel", {"workflow": "paid", "status": "waiting"})
    world.drain()
    assert world.get(f"/runs/{run_id}").json["status"] == "cancelled"


def test_a_batch_of_the_same_key_is_started_once() -> None:
    world = World()
    body = {"filter": {"workflow": "paid"}, "action": "cancel"}
    first, second = (world.post("/runs:batch", body, {"Idempotency-Key": "k"}).json["run_id"] for _ in range(2))
    assert first == second
    assert world.post("/runs:batch", {**body, "rate": 1}, {"Idempotency-Key": "k"}).status == 409
