"""What the API's calls on one run ask of DynamoDB, in a warm process: requests, each a round trip after the other."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from stepwell.api.routes import create_app
from tests.api.kit import Reply, event
from tests.aws.kit import AwsWorld, aws_world

FLOW = """
workflow: flow
nodes:
  ask: {wait: {for: approval}, transitions: [{to: pay}]}
  pay: {wait: {for: event, name: paid, key: k}}
"""
READS = {"query": 2, "get_item": 1}  # the header, the newest snapshot, the log since
MARKED = Counter(READS) + Counter(query=1)  # a paused run's mark has the header read again
Call = Callable[..., Reply]


@pytest.fixture
def world() -> Iterator[AwsWorld]:
    """A world in which a run has been started already, so that its definition is stored."""
    with aws_world(FLOW) as world:
        world.start()
        yield world


@pytest.fixture
def call(world: AwsWorld) -> Call:
    """Makes a call and leaves its requests on the meter, for which it clears it."""
    app = create_app(world.parts)

    def made(method: str, path: str, **body: Any) -> Reply:
        world.meter.clear()
        reply = Reply(app.resolve(dict(event(method, path, json.dumps(body) if method == "POST" else None))))
        assert reply.status < 300, reply.text
        return reply

    return made


@pytest.fixture
def run_id(world: AwsWorld, call: Call) -> str:
    """A run that waits for its approval."""
    run_id = str(call("POST", "/workflows/flow/runs", input={}).json["run_id"])
    world.deliver()
    return run_id


def test_a_start_is_one_put(world: AwsWorld, call: Call) -> None:
    reply = call("POST", "/workflows/flow/runs", input={"n": 1})
    assert world.meter.requests == {"put_item": 1}
    assert (reply.json["status"], reply.json["input"]) == ("pending", {"n": 1})


def test_a_start_that_says_its_key_reads_whether_there_is_such_a_run(world: AwsWorld, call: Call) -> None:
    call("POST", "/workflows/flow/runs", input={}, run_id="run_of_ann")
    assert world.meter.requests == {"query": 1, "put_item": 1}


def test_a_run_is_shown_by_three_reads(world: AwsWorld, call: Call, run_id: str) -> None:
    call("GET", f"/runs/{run_id}")
    assert world.meter.requests == READS


def test_a_history_is_shown_by_a_read_of_the_header_and_one_of_each_page(
    world: AwsWorld, call: Call, run_id: str
) -> None:
    call("GET", f"/runs/{run_id}/history")
    assert world.meter.requests == {"query": 2}


def test_an_approval_reads_the_run_before_its_record_and_shows_it_after(
    world: AwsWorld, call: Call, run_id: str
) -> None:
    call("POST", f"/runs/{run_id}/approve", by="ann")
    assert world.meter.requests == Counter(READS) + Counter(READS) + Counter(put_item=1)


def test_a_cancel_reads_the_run_before_its_record_and_shows_it_after(world: AwsWorld, call: Call, run_id: str) -> None:
    call("POST", f"/runs/{run_id}/cancel")
    assert world.meter.requests == Counter(READS) + Counter(READS) + Counter(put_item=1, update_item=1)


def test_an_event_for_nobody_yet_looks_for_waits_and_is_kept(world: AwsWorld, call: Call) -> None:
    call("POST", "/events", name="paid", key="k", payload={})
    assert world.meter.requests == {"query": 2, "put_item": 1}  # it counts waits, and, at first, pending events


def test_an_event_for_one_run_reads_the_log_for_the_waits_of_its_root(world: AwsWorld, call: Call, run_id: str) -> None:
    call("POST", f"/runs/{run_id}/events", name="paid", payload={})
    assert world.meter.requests == Counter(READS) + Counter(query=3, put_item=1)


def test_a_pause_reads_the_run_once_before_its_mark_and_the_header_again(
    world: AwsWorld, call: Call, run_id: str
) -> None:
    call("POST", f"/runs/{run_id}/pause", by="ann")
    assert world.meter.requests == Counter(READS) + Counter(query=1, update_item=1, put_item=1) + MARKED


def test_the_end_of_a_pause_reads_the_run_once_before_it(world: AwsWorld, call: Call, run_id: str) -> None:
    call("POST", f"/runs/{run_id}/pause", by="ann")
    call("POST", f"/runs/{run_id}/unpause")
    assert world.meter.requests == MARKED + Counter(update_item=1) + MARKED


def test_an_explanation_reads_the_log_once(world: AwsWorld, call: Call, run_id: str) -> None:
    call("GET", f"/runs/{run_id}/explain")
    assert world.meter.requests == Counter(READS) + Counter(query=1)  # the pauses of workflows
