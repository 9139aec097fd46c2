"""Starting runs: what is answered, what repeats, and what is refused with nothing written."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stepwell.limits import BODY_BYTES, TAGS
from stepwell.violations import worded
from tests.api.kit import START_MS, World, event

RUN_FIELDS = {
    "run_id", "workflow", "version", "status", "phase", "outcome", "current_steps", "progress", "waiting_for",
    "waiting_until", "waiting_data", "pending_reason", "input", "state", "steps", "result", "error", "result_type",
    "result_summary", "cancelled_by", "cancel_reason", "parent", "children", "tags", "cost", "created_at",
    "started_at", "ended_at", "links",
}  # fmt: skip


def test_a_start_answers_201_with_the_run_and_where_it_is(world: World) -> None:
    reply = world.post("/workflows/order/runs", {"input": {"amount": 5}, "tags": {"team": "a"}, "priority": 3})
    assert reply.status == 201
    run = reply.json
    assert run.keys() >= RUN_FIELDS
    assert (run["status"], run["phase"], run["pending_reason"]) == ("pending", "initializing", "queued")
    assert (run["input"], run["tags"], run["priority"], run["progress"]) == ({"amount": 5}, {"team": "a"}, 3, "0/4")
    assert run["created_at"] == "2027-01-15T08:00:00.000Z"
    assert reply.headers["Location"] == f"/runs/{run['run_id']}" == run["links"]["self"]


def test_a_start_without_a_body_starts_with_an_empty_input(world: World) -> None:
    reply = world.post("/workflows/quick/runs")
    assert (reply.status, reply.json["input"]) == (201, {})


def test_a_repeated_key_gets_the_first_run_with_200(world: World) -> None:
    first = world.post("/workflows/quick/runs", {"input": {"amount": 1}}, {"Idempotency-Key": "k"})
    again = world.post("/workflows/quick/runs", {"input": {"amount": 1}}, {"Idempotency-Key": "k"})
    assert (first.status, again.status) == (201, 200)
    assert first.json["run_id"] == again.json["run_id"]


def test_a_key_with_another_body_is_a_conflict(world: World) -> None:
    world.post("/workflows/quick/runs", {"input": {"amount": 1}}, {"Idempotency-Key": "k"})
    reply = world.post("/workflows/quick/runs", {"input": {"amount": 2}}, {"Idempotency-Key": "k"})
    assert (reply.status, reply.json["code"]) == (409, "already_used")


def test_a_run_id_with_the_same_body_is_the_same_run_and_with_another_a_conflict(world: World) -> None:
    assert world.post("/workflows/quick/runs", {"run_id": "r1", "input": {"a": 1}}).status == 201
    assert world.post("/workflows/quick/runs", {"run_id": "r1", "input": {"a": 1}}).status == 200
    assert world.post("/workflows/quick/runs", {"run_id": "r1", "input": {"a": 2}}).status == 409


def test_a_key_and_a_run_id_together_are_refused(world: World) -> None:
    reply = world.post("/workflows/quick/runs", {"run_id": "r1"}, {"Idempotency-Key": "k"})
    assert (reply.status, reply.json["code"]) == (422, "two_keys")


def test_a_run_to_start_later_says_when_and_starts_then(world: World) -> None:
    run_id = world.start("quick", start_at="2027-01-15T08:10:00Z")
    assert world.get(f"/runs/{run_id}").json["pending_reason"] == "starts at 2027-01-15T08:10:00.000Z"
    world.advance(599)
    assert world.get(f"/runs/{run_id}").json["status"] == "pending"
    world.advance(1)
    assert world.get(f"/runs/{run_id}").json["status"] == "completed"


def test_an_idle_run_waits_to_be_started_and_cannot_be_started_twice_after_its_end(world: World) -> None:
    run_id = world.start("quick", create_only=True)
    assert world.get(f"/runs/{run_id}").json["status"] == "idle"
    assert world.post(f"/runs/{run_id}/start", {"by": "ana"}).json["status"] == "pending"
    world.drain()
    assert world.get(f"/runs/{run_id}").json["status"] == "completed"
    assert world.post(f"/runs/{run_id}/start").status == 409


def test_a_run_that_is_not_idle_cannot_be_started(world: World) -> None:
    run_id = world.start("order")
    reply = world.post(f"/runs/{run_id}/start")
    assert (reply.status, reply.json["code"]) == (409, "not_idle")


def test_wait_answers_with_the_run_as_it_is_when_the_time_is_up(world: World) -> None:
    reply = world.post("/workflows/order/runs", {"input": {}}, wait="2")
    assert (reply.status, reply.json["status"]) == (201, "pending")
    assert world.clock.now_ms() == START_MS + 2_000


@pytest.mark.parametrize("wait", ["26", "-1", "nan", "inf", "soon", ""])
def test_a_wait_that_is_no_number_up_to_25_is_refused(world: World, wait: str) -> None:
    reply = world.post("/workflows/quick/runs", {}, wait=wait)
    assert (reply.status, reply.json["errors"][0]["path"]) == (422, "/wait")
    assert world.get("/runs").json["items"] == []


REFUSED: dict[str, tuple[Any, int, str]] = {
    "not JSON": ("{", 400, "bad_json"),
    "NaN": ('{"input": NaN}', 400, "bad_json"),
    "Infinity": ('{"input": -Infinity}', 400, "bad_json"),
    "a number that overflows": ('{"input": 1e999}', 422, "not_finite"),
    "a number beyond 64 bits": ('{"input": 99999999999999999999}', 422, "number_too_large"),
    "a number of many digits": ('{"input": ' + "9" * 5000 + "}", 422, "number_too_large"),
    "a name twice": ('{"input": {"a": 1, "a": 2}}', 400, "bad_json"),
    "half a surrogate pair": ('{"input": "\\ud800"}', 422, "bad_text"),
    "a blank of another kind": ("\x0b", 400, "bad_json"),
    "not UTF-8": (b'{"input": "\xff"}', 400, "bad_json"),
    "deep": ('{"input": ' + "[" * 100 + "]" * 100 + "}", 422, "too_deep"),
    "very deep": ('{"input": ' + "[" * 200_000 + "]" * 200_000 + "}", 422, "too_deep"),
    "large": (json.dumps({"input": "x" * 2_000_000}), 413, "body_too_large"),
    "large bytes": (b"x" * (BODY_BYTES + 1), 413, "body_too_large"),
    "a list": ("[]", 422, "invalid_input"),
    "null": ("null", 422, "invalid_input"),
    "an unknown field": ('{"inputs": {}}', 422, "invalid_input"),
    "a number for the id": ('{"run_id": 7}', 422, "invalid_input"),
    "text for the priority": ('{"priority": "1"}', 422, "invalid_input"),
    "true for the priority": ('{"priority": true}', 422, "invalid_input"),
    "a huge priority": ('{"priority": 1000000000000}', 422, "invalid_input"),
    "tags that are a list": ('{"tags": ["a"]}', 422, "invalid_input"),
    "a tag that is a number": ('{"tags": {"a": 1}}', 422, "invalid_input"),
    "too many tags": (json.dumps({"tags": {f"t{i}": "" for i in range(TAGS + 1)}}), 422, "too_many_tags"),
    "a tag's name": ('{"tags": {"../a": "b"}}', 422, "bad_name"),
    "a time without its offset": ('{"start_at": "2027-01-15T08:00:00"}', 422, "invalid_input"),
    "a time too far ahead": ('{"start_at": "9999-12-31T23:59:59Z"}', 422, "too_far_ahead"),
    "an empty id": ('{"run_id": ""}', 422, "bad_run_id"),
    "a time as a number": ('{"start_at": 5}', 422, "invalid_input"),
    "a path as the id": ('{"run_id": "../etc"}', 422, "bad_run_id"),
    "an id with a slash": ('{"run_id": "a/b"}', 422, "bad_run_id"),
    "an id too long": (json.dumps({"run_id": "x" * 129}), 422, "bad_run_id"),
    "create_only as text": ('{"create_only": "yes"}', 422, "invalid_input"),
    "the input against its schema": ('{"input": {"amount": "much"}}', 422, "invalid_input"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_body_that_cannot_be_is_refused_and_nothing_is_written(world: World, case: str) -> None:
    body, status, code = REFUSED[case]
    reply = world.send(event("POST", "/workflows/order/runs", body))
    assert (reply.status, reply.json["code"]) == (status, code), reply.text
    assert reply.json.keys() >= {"type", "code", "title", "status", "detail", "hint", "errors"}
    assert reply.json["type"] == f"urn:stepwell:{code}"
    assert reply.json["errors"], "no mistake is named"
    assert reply.headers["Content-Type"] == "application/problem+json"
    assert world.get("/runs").json["items"] == []
    assert world.queue.pending() == 0


def test_a_wrong_field_is_named_by_its_path(world: World) -> None:
    reply = world.post("/workflows/order/runs", {"tags": {"a": 1}, "nope": 1})
    assert {problem["path"] for problem in reply.json["errors"]} == {"/tags/a", "/nope"}
    broken = world.post("/workflows/order/runs", {"input": {"amount": "much"}})
    assert broken.json["errors"][0]["path"] == "/input/amount"
    named = world.post("/workflows/order/runs", {"run_id": "a/b"}).json
    assert named["errors"] == [{"path": "/run_id", "message": named["detail"]}]


def test_null_leaves_out_a_field_that_may_be_left_out(world: World) -> None:
    left_out = dict.fromkeys(("run_id", "tags", "priority", "start_at", "version", "event", "create_only"))
    started = world.post("/workflows/quick/runs", {"input": {"a": 1}, **left_out})
    assert (started.status, started.json["input"]) == (201, {"a": 1})
    assert world.post("/events", {"name": "paid", "key": None, "id": None}).status == 202
    missing = world.post("/events", {"name": None})
    assert (missing.status, missing.json["errors"][0]["path"]) == (422, "/name")


def test_null_is_a_value_of_a_field_that_takes_any(world: World) -> None:
    assert world.post("/workflows/quick/runs", {"input": None}).json["input"] is None


def test_a_body_in_base64_is_read(world: World) -> None:
    reply = world.send(event("POST", "/workflows/order/runs", b'{"input": {"amount": 7}}'))
    assert (reply.status, reply.json["input"]) == (201, {"amount": 7})


def test_what_says_base64_and_is_not_is_refused(world: World) -> None:
    broken = {**event("POST", "/workflows/order/runs", "%%%"), "isBase64Encoded": True}
    assert world.send(broken).status == 400


@pytest.mark.parametrize("name", ["nope", "..%2F..%2Fetc", "%00", "a%2Fb", "x" * 5000, "%F0%9F%98%80", "%ff"])
def test_an_unknown_workflow_is_404_whatever_its_name(world: World, name: str) -> None:
    assert world.post(f"/workflows/{name}/runs", {}).status == 404
    assert world.get(f"/workflows/{name}").status == 404


def test_a_start_with_an_event_is_201_and_later_ones_of_its_id_are_200(world: World) -> None:
    body = {"run_id": "r1", "input": {"amount": 5}, "event": {"name": "added", "payload": 1, "id": "e1"}}
    replies = [world.post("/workflows/order/runs", body) for _ in range(2)]
    other = {**body, "input": {"amount": 6}, "event": {"name": "added", "payload": 2}}
    assert [reply.status for reply in (*replies, world.post("/workflows/order/runs", other))] == [201, 200, 200]
    assert world.get("/runs/r1").json["input"] == {"amount": 5}


@pytest.mark.parametrize(
    "body", [{"event": {"name": "a"}}, {"run_id": "r1", "event": {"name": "stepwell.update"}},
             {"run_id": "r1", "event": {}}, {"run_id": "r1", "event": {"name": "a", "key": "k"}},
             {"run_id": "r1", "input": {"amount": "?"}, "event": {"name": "a"}}]
)  # fmt: skip
def test_a_start_whose_event_cannot_be_is_refused_with_nothing_written(world: World, body: dict[str, Any]) -> None:
    assert world.post("/workflows/order/runs", body).status == 422
    assert world.get("/runs/r1").status == 404


def test_a_run_that_has_ended_refuses_a_start_with_an_event(world: World) -> None:
    world.post("/workflows/quick/runs", {"run_id": "r1"})
    world.drain()
    reply = world.post("/workflows/quick/runs", {"run_id": "r1", "event": {"name": "a"}})
    assert (reply.status, reply.json["code"]) == (409, "run_ended")


@pytest.mark.parametrize("key", ["café", "", " "])
def test_a_key_that_a_header_cannot_carry_or_that_is_empty_is_refused(world: World, key: str) -> None:
    refused = world.post("/workflows/order/runs", {"input": {}}, {"Idempotency-Key": key})
    assert (refused.status, refused.json["code"]) == (422, "bad_key")
    assert not world.get("/runs").json["items"]


def test_an_unknown_workflow_is_told_with_the_one_that_may_be_meant() -> None:
    api = World()
    assert api.post("/workflows/oder/runs", {}).json["hint"] == "did you mean `order`?"
    assert api.post("/workflows/oder/pause", {}).json["hint"] == "did you mean `order`?"
    assert api.post("/workflows/nightly/runs", {}).json["hint"] == "deployed: fails, order, paid, quick"


@pytest.mark.parametrize(
    ("path", "query", "said"),
    [
        ("/runs", {"status": "wating"}, "/status/0: it must be one of idle, pending, running, waiting, paused, "),
        ("/runs", {"status": "wating"}, "cancelled; did you mean `waiting`?"),
        ("/runs/r-1/graph", {"format": "png"}, "/format: it must be one of svg, mermaid, dot, json"),
    ],
)
def test_a_word_that_is_none_of_those_there_are_is_told_with_them(path: str, query: dict[str, str], said: str) -> None:
    api = World()
    assert api.post("/workflows/paid/runs", {"run_id": "r-1"}).status == 201
    assert said in api.get(path, **query).json["detail"]


def test_a_mistake_in_a_body_is_told_in_plain_words() -> None:
    api = World()
    told = {
        (path, json.dumps(body)): api.post(path, body).json["detail"]
        for path, body in (("/workflows/order/runs", {"inputs": {}}), ("/workflows/order/runs", []), ("/events", {}))
    }
    assert list(told.values()) == [
        "the body is wrong: /inputs: it is not known; did you mean `input`?",
        "the body is wrong: body: it must be a JSON object",
        "the body is wrong: /name: it is missing",
    ]


MONTHLY = """
workflow: monthly
input_schema:
  type: object
  required: [month, year]
  properties: {year: {type: integer}, of: {type: object, required: [shop]}}
nodes:
  work: {run: python:shop.charge, timeout: 1m}
"""


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"year": 2027}, "the input lacks `month`"),
        ({}, "the input lacks `month`, `year`"),
        ([], "the input must be object"),
        ({"month": 1, "year": 2027, "of": {}}, "the input violates input_schema: /of lacks `shop`"),
    ],
)
def test_an_input_that_its_schema_refuses_is_told_in_plain_words(given: Any, said: str) -> None:
    reply = World(MONTHLY).post("/workflows/monthly/runs", {"input": given})
    assert (reply.status, reply.json["detail"]) == (422, said)


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (
            "the input violates input_schema: / lacks month; /year must be integer",
            "the input violates input_schema: it lacks `month`; /year must be integer",
        ),
        ("after ship, the state violates state_schema: / lacks total", "after ship, the state lacks `total`"),
        ("the run's result violates output_schema: / must be object", "the run's result must be object"),
        ("a file / lacks sense", "a file / lacks sense"),
    ],
)
def test_what_a_schema_refuses_is_worded_and_other_messages_are_as_they_were(message: str, said: str) -> None:
    assert worded(message) == said
