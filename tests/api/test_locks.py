"""What the API shows of locks: who waits, for which one, and who has it."""

from __future__ import annotations

from tests.api.kit import World

LOCKED = """
workflow: order
lock: "thread-{{ input.thread }}"
timeline: [{name: hold, wait: {for: approval}}]
"""
STEPS = """
workflow: order
steps:
  - {name: cut, wait: {for: approval}, lock: bench}
  - {name: glue, wait: {for: approval}, lock: bench}
"""


def test_a_run_that_waits_shows_the_lock_and_its_owner() -> None:
    world = World(LOCKED)
    first, second = (world.start(input={"thread": 7}) for _ in range(2))
    run = world.get(f"/runs/{second}").json
    assert (run["status"], run["phase"], run["waiting_for"]) == ("waiting", "waiting_for_event", "lock")
    assert (run["waiting_data"]["lock"], run["waiting_data"]["owner"]) == ("thread-7", first)
    assert (run["waiting_until"], run["steps"], run["progress"]) == (None, {}, "0/1")
    assert run["started_at"] is not None


def test_runs_that_wait_for_a_lock_can_be_listed() -> None:
    world = World(LOCKED)
    _, second = (world.start(input={"thread": 7}) for _ in range(2))
    (found,) = world.get("/runs", waiting_for="lock").json["items"]
    assert (found["run_id"], found["status"], found["current_steps"]) == (second, "waiting", [])


def test_the_explanation_says_who_has_the_lock() -> None:
    world = World(LOCKED)
    first, second = (world.start(input={"thread": 7}) for _ in range(2))
    told = world.get(f"/runs/{second}/explain").json
    assert f"for the lock thread-7, which {first} has" in told["why"]
    assert (told["waiting_for"], told["nothing_can_wake_it"]) == ("lock", False)
    assert world.get(f"/runs/{first}/explain").json["waiting_for"] == "approval"


def test_the_history_tells_when_a_lock_was_asked_for_given_and_let_go() -> None:
    world = World(LOCKED)
    first = world.start(input={"thread": 7})
    world.post(f"/runs/{first}/approve", {"by": "ana"})
    world.drain()
    entries = [one for one in world.get(f"/runs/{first}/history").json["items"] if one["type"].startswith("lock.")]
    assert [one["type"] for one in entries] == ["lock.requested", "lock.granted", "lock.released"]
    assert {str(one["data"]) for one in entries} == {"{'locks': ['thread-7']}"}


def test_a_step_of_a_dag_that_waits_for_a_lock_shows_who_has_it() -> None:
    world = World(STEPS)
    run_id = world.start()
    told = world.get(f"/runs/{run_id}/explain").json
    assert f"for the lock bench, which {run_id} has" in told["why"]
    run = world.get(f"/runs/{run_id}").json
    assert {name: step["status"] for name, step in run["steps"].items()} == {"cut": "waiting", "glue": "waiting"}


def test_a_format_has_its_own_word_for_a_run_that_waits_for_a_lock() -> None:
    world = World(LOCKED)
    _, second = (world.start(input={"thread": 7}) for _ in range(2))
    run = world.get(f"/runs/{second}", **{"as": "agent"}).json
    assert (run["status"], run["waitingFor"]) == ("WAITING", "lock")
