"""What a run says of the pause of its workflow, and of the starts that it gathers."""

from __future__ import annotations

import pytest

from tests.api.kit import World

DIGEST = """
workflow: digest
batch: {max_size: 3, max_delay: 10m}
timeline:
  - {name: send, run: python:shop.charge, timeout: 1m}
"""


@pytest.mark.parametrize(
    ("place", "said"),
    [("/workflows/order", "Its workflow order is paused by ana since "), ("/workflows:", "All workflows are paused ")],
)
def test_a_waiting_run_says_that_its_workflow_is_paused(world: World, place: str, said: str) -> None:
    """It has not been stopped yet: that happens before its next step."""
    run_id, path = world.start(), place if place.endswith(":") else f"{place}/"
    world.post(f"{path}pause", {"reason": "the bank is down", "by": "ana"})
    told = world.get(f"/runs/{run_id}/explain").json
    assert told["status"] == "waiting"
    assert told["why"].startswith(said)
    assert "(the bank is down): it stops before its next step. It waits at approve for approval" in told["why"]
    assert told["workflow_paused"]["reason"] == "the bank is down"
    assert f"POST {path}unpause ends the pause of its workflow" in [one["detail"] for one in told["wakers"]]
    world.post(f"{path}unpause")
    told = world.get(f"/runs/{run_id}/explain").json
    assert told["workflow_paused"] is None
    assert "paused" not in told["why"]


def test_a_run_that_its_workflow_stopped_says_so_once(world: World) -> None:
    world.post("/workflows/order/pause", {"by": "ana"})
    told = world.get(f"/runs/{world.start()}/explain").json
    assert told["status"] == "paused"
    assert told["why"].count("paused with its workflow order by ana since") == 1
    assert told["why"].count("workflow") == 1
    assert told["workflow_paused"]["workflow"] == "order"


def test_the_answer_to_a_pause_tells_whether_there_was_one_before(world: World) -> None:
    for path in (f"/runs/{world.start()}/pause", "/workflows/order/pause", "/workflows:pause"):
        assert [world.post(path, {"by": who}).json["paused_before"] for who in ("ana", "leo")] == [False, True]
    assert world.post("/workflows/order/pause").json["by"] == "ana"


@pytest.mark.parametrize("call", ["pause", "unpause"])
def test_a_star_in_the_path_is_no_workflow_and_pauses_nothing(world: World, call: str) -> None:
    """The engine writes a pause of all workflows under this name."""
    if call == "unpause":
        world.post("/workflows:pause")
    reply = world.post(f"/workflows/*/{call}")
    assert (reply.status, reply.json["code"]) == (404, "unknown_workflow")
    assert (world.get("/stats").json["paused"] == []) is (call == "pause")


def test_a_run_that_its_workflows_pause_stopped_was_not_paused_itself(world: World) -> None:
    world.post("/workflows/order/pause", {"by": "ana"})
    run_id = world.start()
    assert world.get(f"/runs/{run_id}").json["status"] == "paused"
    assert [world.post(f"/runs/{run_id}/pause").json["paused_before"] for _ in range(2)] == [False, True]


def test_an_ended_run_says_nothing_of_a_pause(world: World) -> None:
    run_id = world.start("quick")
    world.post("/workflows/quick/pause")
    told = world.get(f"/runs/{run_id}/explain").json
    assert (told["status"], told["workflow_paused"]) == ("completed", None)
    assert "paused" not in told["why"]


def test_a_run_that_gathers_starts_says_how_many_it_has_and_when_it_begins() -> None:
    world = World(DIGEST)
    run_id = world.start("digest")
    world.post("/workflows/digest/runs", {})
    view = world.get(f"/runs/{run_id}").json
    assert view["status"] == "pending"
    assert view["gathering"] == {"mode": "batch", "starts": 2, "most": 3, "begins_at": "2027-01-15T08:10:00.000Z"}
    world.advance(600)
    assert world.get(f"/runs/{run_id}").json["gathering"] is None
