"""Agents as the API shows them: the checkpoint while they wait, and how they ended."""

from __future__ import annotations

from pydantic.alias_generators import to_camel

from stepwell.definition.graph import Json
from stepwell.engine.actions import Outcome
from stepwell.engine.records import Failure
from tests.api.kit import World

TALK = """
agent: talk
actions:
  - {id: 1, actionType: send_message, parameters: {message: "Hello {{ name }}"}}
  - {id: 2, actionType: wait_for_response, parameters: {threadId: "{{ thread }}", expectedFrom: ana}}
  - {id: 3, actionType: rate}
  - {id: 4, actionType: send_message, parameters: {message: "Bye"}}
"""


def talking(world: World) -> str:
    world.steps.functions["send_message"] = lambda call: Outcome({"sent": True})
    return world.start("talk", input={"name": "Ana", "thread": 7})


def shown(world: World, run_id: str) -> dict[str, Json]:
    found: dict[str, Json] = world.get(f"/runs/{run_id}", **{"as": "agent"}).json
    return found


def test_a_waiting_agent_shows_its_checkpoint() -> None:
    world = World(TALK)
    run = shown(world, talking(world))
    assert (run["status"], run["currentActionId"], run["nextActionId"]) == ("WAITING", "2", "3")
    assert (run["waitingFor"], run["waitingUntil"]) == ("response", "2027-01-16T08:00:00.000Z")
    assert run["waitingData"] == {"threadId": 7, "expectedFrom": "ana", "timeout": "1d"}
    assert run["variables"] == {"name": "Ana", "thread": 7, "sent": True, "1": {"sent": True}}
    assert [one["content"] for one in run["conversationHistory"]] == ["Hello Ana"]


def test_an_agent_that_failed_says_at_which_action_and_why() -> None:
    world = World(TALK)
    world.steps.functions["rate"] = lambda call: Outcome(failure=Failure("Unclear", "step", "no idea", call.node))
    run_id = talking(world)
    world.post("/events", {"name": "MESSAGE_RECEIVED", "key": "7", "payload": {"from": "ana", "message": "Hm"}})
    world.drain()
    run = shown(world, run_id)
    assert (run["status"], run["resultType"], run["errorMessage"]) == ("FAILED", "failure", "no idea")
    assert (run["failedActionId"], run["currentActionId"], run["nextActionId"]) == ("3", None, None)
    assert (run["completedAt"], run["variables"]["lastResponse"]) == (run["endedAt"], "Hm")


def test_the_end_of_an_agent_is_told_in_both_spellings() -> None:
    world = World(TALK)
    run_id = talking(world)
    world.post(f"/runs/{run_id}/cancel", {"reason": "too late", "by": "ana"})
    world.drain()
    run = shown(world, run_id)
    assert (run["result_type"], run["cancelled_by"], run["cancel_reason"]) == ("cancelled", "ana", "too late")
    for name in ("result_type", "result_summary", "completed_at", "error_message", "failed_action_id"):
        assert run[name] == run[to_camel(name)]


def test_an_agent_whose_wait_is_over_has_timed_out() -> None:
    world = World(TALK)
    run_id = talking(world)
    world.advance(86_400)
    run = shown(world, run_id)
    assert (run["status"], run["resultType"]) == ("TIMEOUT", "timeout")
    assert "waited for response until its time was up" in run["resultSummary"]
