"""Acting on runs: ends, approvals, events; each with a definite answer."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from stepwell.errors import DefinitionError
from tests.api.kit import World

ACTIONS = ["start", "cancel", "terminate", "approve", "reject"]


def test_cancelling_an_ended_run_does_nothing(world: World) -> None:
    run_id = world.start("quick")
    assert world.post(f"/runs/{run_id}/cancel").json == {"run_id": run_id, "cancelled": False, "status": "completed"}


def test_terminating_ends_the_run_as_failed(world: World) -> None:
    run_id = world.start()
    assert world.post(f"/runs/{run_id}/terminate", {"reason": "stuck"}).json["terminated"] is True
    run = world.get(f"/runs/{run_id}").json
    error = run["error"]
    assert (run["status"], error["type"], error["message"]) == ("failed", "terminated", "stuck")
    assert (error["category"], error["step"]) == ("governance", "")  # a person decided it; it comes from no step


def test_an_approval_goes_to_the_wait_that_is_named(world: World) -> None:
    run_id = world.start()
    assert world.post(f"/runs/{run_id}/approve", {"wait": "another"}).status == 409
    reply = world.post(f"/runs/{run_id}/approve", {"wait": "approve", "data": {"ok": 1}, "by": "ana"})
    assert (reply.status, reply.json["status"]) == (200, "running")
    world.drain()
    state = world.get(f"/runs/{run_id}").json["state"]
    assert state["approval"] == {"decision": "approved", "by": "ana", "data": {"ok": 1}}


def test_a_rejection_fails_the_run_with_its_reason(world: World) -> None:
    run_id = world.start()
    assert world.post(f"/runs/{run_id}/reject", {"reason": "too dear", "by": "ana"}).status == 200
    world.drain()
    run = world.get(f"/runs/{run_id}").json
    assert (run["status"], run["error"]["type"]) == ("failed", "rejected")
    assert "too dear" in run["error"]["message"]


@pytest.mark.parametrize("answer", ["approve", "reject"])
def test_an_answer_that_nobody_waits_for_is_a_conflict(world: World, answer: str) -> None:
    reply = world.post(f"/runs/{world.start('quick')}/{answer}", {"by": "ana"})
    assert (reply.status, reply.json["code"]) == (409, "not_waiting")


def test_an_event_reaches_the_run_that_waits_for_its_key(world: World) -> None:
    seven, eight = world.start("paid", input={"order": "7"}), world.start("paid", input={"order": "8"})
    reply = world.post("/events", {"name": "paid", "key": "7", "payload": {"eur": 5}, "id": "e1"})
    assert (reply.status, reply.json["event_id"], reply.json["waits"]) == (202, "e1", 1)
    world.drain()
    assert world.get(f"/runs/{seven}").json["result"] == {"eur": 5}
    assert world.get(f"/runs/{eight}").json["status"] == "waiting"


def test_an_event_may_have_a_whole_number_as_its_key() -> None:
    world = World("workflow: paid\ntimeline: [{name: paid, wait: {for: event, name: paid, key: 7}}]")
    run_id = world.start("paid")
    assert world.post("/events", {"name": "paid", "key": 7}).status == 202
    world.drain()
    assert world.get(f"/runs/{run_id}").json["status"] == "completed"
    assert world.post("/events", {"name": "paid", "key": True}).status == 422


@pytest.mark.parametrize("name", ["governance.blocked", "stepwell.run.completed", "SCHEDULE_REACHED"])
def test_an_event_that_only_stepwell_sends_is_refused(world: World, name: str) -> None:
    reply = world.post("/events", {"name": name, "payload": {}})
    assert (reply.status, reply.json["code"]) == (422, "reserved_event")


def test_an_event_that_came_first_is_kept(world: World) -> None:
    world.post("/events", {"name": "paid", "key": "7", "payload": 1})
    world.drain()
    assert world.get(f"/runs/{world.start('paid', input={'order': '7'})}").json["status"] == "completed"


def test_an_event_that_nothing_waits_for_says_until_when_it_is_kept(world: World) -> None:
    sent = world.post("/events", {"name": "paid", "key": "7", "id": "e1"}).json
    week_later = "2027-01-22T08:00:00.000Z"
    assert sent == {"event_id": "e1", "duplicate": False, "waits": 0, "starts": [], "kept_until": week_later}
    again = world.post("/events", {"name": "paid", "key": "7", "id": "e1"}).json
    assert (again["duplicate"], again["kept_until"]) == (True, None)


def test_an_event_that_is_not_kept_says_so() -> None:
    world = World("workflow: rates\nevents: {changed: {expire_after: 0}}\ntimeline: [{name: nap, sleep: 1h}]")
    assert world.post("/events", {"name": "changed"}).json["kept_until"] is None


def test_an_event_names_the_workflows_that_it_may_start() -> None:
    world = World("workflow: ship\ntriggers: [{event: paid}]\ntimeline: [{name: nap, sleep: 1h}]")
    assert world.post("/events", {"name": "paid"}).json["starts"] == ["ship"]
    assert world.post("/events", {"name": "lost"}).json["starts"] == []
    run_id = world.start("ship")
    assert world.post(f"/runs/{run_id}/events", {"name": "paid"}).json["starts"] == []  # it is for that run alone


BOTH = """
workflow: both
nodes:
  begin: {fan_out: all, transitions: [{to: one}, {to: two}]}
  one: {wait: {for: event, name: paid}, transitions: [{to: gather}]}
  two: {wait: {for: event, name: paid}, transitions: [{to: gather}]}
  gather: {fan_in: {}, wait: {for: event, name: shipped}}
"""


def test_an_event_for_one_run_counts_the_waits_of_its_root_and_its_branches() -> None:
    world = World(BOTH)
    run_id = world.start("both")

    def waits(name: str) -> int:
        found: int = world.post(f"/runs/{run_id}/events", {"name": name}).json["waits"]
        return found

    assert (waits("shipped"), waits("paid")) == (0, 2)
    world.drain()
    assert (waits("paid"), waits("shipped")) == (1, 0)
    world.drain()
    assert world.get(f"/runs/{run_id}").json["status"] == "completed"  # the first event was kept
    other = world.start("both")
    for _ in range(2):
        world.post(f"/runs/{other}/events", {"name": "paid"})
        world.drain()
    run_id = other
    assert (waits("paid"), waits("shipped")) == (0, 1)


def test_the_waits_of_a_run_that_cannot_be_read_are_none(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = world.start("paid", input={"order": "7"})
    with monkeypatch.context() as old:
        old.setattr(world.parts.catalog, "_versions", {})
        old.setattr(world.parts.catalog, "_compile", Mock(side_effect=DefinitionError("there is no key `new`")))
        assert world.post(f"/runs/{run_id}/events", {"name": "paid"}).json["waits"] == 0


def test_an_event_for_one_run_reaches_that_run(world: World) -> None:
    run_id = world.start("paid", input={"order": "7"})
    assert world.post(f"/runs/{run_id}/events", {"name": "paid", "payload": {"eur": 1}}).status == 202
    world.drain()
    assert world.get(f"/runs/{run_id}").json["result"] == {"eur": 1}
    assert world.post(f"/runs/{run_id}/events", {"name": "paid"}).status == 409


@pytest.mark.parametrize("is_newer", [True, False], ids=["newer", "lost"])
def test_an_event_for_a_run_whose_definition_cannot_be_read_is_kept(
    world: World, is_newer: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """During a deploy, the previous code meets runs whose definition it cannot compile."""
    run_id = world.start("paid", input={"order": "7"})
    catalog = world.parts.catalog
    with monkeypatch.context() as old:
        old.setattr(catalog, "_versions", {})
        if is_newer:
            old.setattr(catalog, "_compile", Mock(side_effect=DefinitionError("there is no key `new`")))
        else:
            old.setattr(world.store, "_definitions", {})
        assert world.post(f"/runs/{run_id}/events", {"name": "paid", "payload": {"eur": 1}}).status == 202
    world.drain()
    assert world.get(f"/runs/{run_id}").json["status"] == "completed"


BAD_EVENTS: list[dict[str, object]] = [
    {},
    {"name": 5},
    {"name": ""},
    {"name": "../x"},
    {"name": "a", "key": 7.5},
    {"name": "a", "key": "x" * 600},
    {"name": "a", "key": "a\u0000b"},
    {"name": "a", "id": 5},
    {"name": "a", "unknown": 1},
]


@pytest.mark.parametrize("body", BAD_EVENTS)
def test_an_event_that_cannot_be_is_refused(world: World, body: dict[str, object]) -> None:
    assert world.post("/events", body).status == 422
    assert world.queue.pending() == 0


@pytest.mark.parametrize("action", ACTIONS)
def test_an_action_on_an_unknown_run_is_404_and_on_an_impossible_one_422(world: World, action: str) -> None:
    assert world.post(f"/runs/nope/{action}").status == 404
    assert world.post(f"/runs/..%2Fx/{action}").status == 422
    assert world.post("/runs/nope/events", {"name": "a"}).status == 404


@pytest.mark.parametrize("action", ACTIONS)
def test_an_action_with_a_wrong_body_is_refused(world: World, action: str) -> None:
    run_id = world.start("quick", create_only=True)
    assert world.post(f"/runs/{run_id}/{action}", {"by": 7}).status == 422
    assert world.post(f"/runs/{run_id}/{action}", {"unknown": 1}).status == 422
    assert world.get(f"/runs/{run_id}").json["status"] == "idle"


def test_a_redrive_answers_with_the_new_run_and_again_with_the_same() -> None:
    world = World("workflow: napper\ntimeline: [{name: nap, sleep: 1h}, {name: nap2, sleep: 1h}]")
    run_id = world.start("napper")
    assert world.post(f"/runs/{run_id}/redrive").json["code"] == "not_ended"
    world.post(f"/runs/{run_id}/terminate")
    told = world.post(f"/runs/{run_id}/redrive", {"dry_run": True})
    assert (told.status, told.json["redriven_as"], len(told.json["again"])) == (200, None, 1)
    first = world.post(f"/runs/{run_id}/redrive", {"by": "ana"})
    assert (first.status, first.json["origin"]) == (201, {"kind": "redrive", "run_id": run_id})
    assert first.headers["Location"] == f"/runs/{first.json['run_id']}"
    second = world.post(f"/runs/{run_id}/redrive")
    assert (second.status, second.json["run_id"]) == (200, first.json["run_id"])
    refused = world.post(f"/runs/{run_id}/redrive", {"from": "nap"})
    assert (refused.status, refused.json["code"]) == (409, "already_redriven")
    world.drain()
    history = world.get(f"/runs/{first.json['run_id']}/history").json["items"]
    assert ("run.redriven", "nap") in [(entry["type"], entry["step"]) for entry in history]


def test_a_fork_answers_with_the_new_run_and_a_dry_run_with_the_way_that_it_would_take(world: World) -> None:
    run_id = world.start("quick", input={"n": 4})
    world.drain()
    told = world.post(f"/runs/{run_id}/fork", {"at": 0, "dry_run": True})
    assert (told.status, told.json["run_id"], told.json["kept"]) == (200, run_id, 0)
    first = world.post(f"/runs/{run_id}/fork", {"at": 0, "input": {"n": 5}, "by": "ana"})
    again = world.post(f"/runs/{run_id}/fork", {"at": 0, "input": {"n": 5}, "by": "ben"})
    assert (first.status, again.status) == (201, 200)
    assert (first.json["run_id"], first.json["input"]) == (again.json["run_id"], {"n": 5})
    assert first.json["origin"] == {"kind": "fork", "run_id": run_id}
    other = world.post(f"/runs/{run_id}/fork", {"at": 0}, headers={"Idempotency-Key": "k"})
    assert (other.status, other.json["input"]) == (201, {"n": 4})
    assert world.post(f"/runs/{run_id}/fork", {"at": 99}).json["code"] == "unknown_slot"
    assert world.post(f"/runs/{run_id}/fork", {}).status == 422


def test_a_rerun_is_a_run_of_its_own_with_the_same_input_and_tags(world: World) -> None:
    run_id = world.start("quick", input={"n": 4}, tags={"customer": "c1"})
    first = world.post(f"/runs/{run_id}/rerun", headers={"Idempotency-Key": "k"})
    again = world.post(f"/runs/{run_id}/rerun", headers={"Idempotency-Key": "k"})
    other = world.post(f"/runs/{run_id}/rerun")
    assert [first.status, again.status, other.status] == [201, 200, 201]
    assert first.json["run_id"] == again.json["run_id"]
    assert len({run_id, first.json["run_id"], other.json["run_id"]}) == 3
    assert (first.json["input"], first.json["tags"]) == ({"n": 4}, {"customer": "c1"})
    assert first.json["origin"] == {"kind": "rerun", "run_id": run_id}
    assert world.post(f"/runs/{run_id}/rerun", {"input": 1}).status == 422


def test_a_dry_run_of_a_redriven_run_says_what_a_redrive_would_do_now() -> None:
    world = World("workflow: napper\ntimeline: [{name: nap, sleep: 1h}, {name: nap2, sleep: 1h}]")
    run_id = world.start("napper")
    world.post(f"/runs/{run_id}/terminate")
    made = world.post(f"/runs/{run_id}/redrive", {}).json["run_id"]
    for asked, refused in (({}, None), ({"from": "nap"}, "already_redriven")):
        told = world.post(f"/runs/{run_id}/redrive", {"dry_run": True, **asked})
        assert (told.status, told.json["redriven_as"], told.json["refused"]) == (200, made, refused)
        assert [one["step"] for one in told.json["again"]] == ["nap"]
        assert world.post(f"/runs/{run_id}/redrive", asked).status == (409 if refused else 200)
