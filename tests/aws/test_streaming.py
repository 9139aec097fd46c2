"""The stream on emulated AWS: what the bus is told, what that costs in reads, and what comes again."""

from __future__ import annotations

import json
from collections import Counter
from itertools import count
from typing import Any

import pytest

from stepwell.api.runs.histories import read_history
from stepwell.aws.bus import Bus
from stepwell.definition.graph import Json
from stepwell.engine.actions import Outcome
from stepwell.engine.entries import Entry, entry_json
from stepwell.engine.forks.marks import is_waiting
from stepwell.engine.records import Status
from stepwell.limits import DAY_MS, HOUR_MS
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.notify.telling import TOLD, Notice
from stepwell.runtime.steps.port import StepCall
from tests.aws.stream_kit import Streamed, sort_of, streamed
from tests.contract.kit import header
from tests.runtime.kit import fails

CHAIN = "workflow: flow\ntimeline: [{name: a, run: python:m.a}, {name: b, run: python:m.b}]"
APPROVAL = "workflow: flow\ntimeline: [{name: ok, wait: {for: approval}}, {name: b, run: python:m.b}]"
EVENT = "workflow: flow\ntimeline: [{name: hold, wait: {for: event, name: paid, key: k}}]"
NAP = "workflow: flow\ntimeline: [{name: nap, sleep: 20d}, {name: b, run: python:m.b}]"
RETRY = "workflow: flow\ntimeline: [{name: a, run: python:m.a, retry: {max_retries: 2, on: [step]}}]"
MANUAL = "workflow: flow\nstart: manual\ntimeline: [{name: a, run: python:m.a}]"
FORK = """
workflow: flow
nodes:
  begin: {transitions: [{to: a, foreach: "{{ [1, 2, 3] }}", max_concurrency: 2}]}
  a: {run: python:m.a, retry: {max_retries: 1, on: [step]}, transitions: [{to: ok}]}
  ok: {wait: {for: approval}, transitions: [{to: gather}]}
  gather: {fan_in: {policy: all, on_branch_failure: collect}, transitions: [{to: b}]}
  b: {run: python:m.b}
"""
DAG = """
workflow: flow
steps:
  - {name: a, run: python:m.a, retry: {max_retries: 1, on: [step]}}
  - {name: bad, run: python:m.bad, on_failure: skip}
  - {name: ok, wait: {for: approval}, depends_on: [a]}
  - {name: b, run: python:m.b, depends_on: [ok, bad]}
"""
LOOP = """
workflow: flow
nodes:
  work:
    run: python:m.work
    output: {last: "{{ result }}"}
    max_visits: 100000
    transitions: [{to: work, when: "result < 700"}, {to: end}]
"""


def chained(at: Streamed) -> str:
    run_id = at.world.start(given={"order": 1}, tags={"team": "shop"})
    at.world.deliver()
    return run_id


def approved(at: Streamed) -> str:
    run_id = chained(at)
    run_now(at.world.service.approve(run_id, who="eva"))
    at.world.deliver()
    return run_id


def cancelled(at: Streamed) -> str:
    run_id = chained(at)
    run_now(at.world.service.cancel(run_id, reason="enough", who="eva"))
    at.world.deliver()
    return run_id


def paid(at: Streamed) -> str:
    run_id = chained(at)
    run_now(at.world.service.send_event("paid", {"amount": 3}, key="k"))
    at.world.deliver()
    return run_id


def late(at: Streamed) -> str:
    run_id = chained(at)
    at.world.pass_time(25 * HOUR_MS)
    return run_id


def slept(at: Streamed) -> str:
    run_id = chained(at)
    at.world.pass_time(21 * DAY_MS)
    return run_id


def failed(at: Streamed) -> str:
    at.world.steps.of["a"] = lambda _: fails()
    run_id = chained(at)
    at.world.pass_time(HOUR_MS)
    return run_id


def branched(at: Streamed) -> str:
    """A try that fails in each branch, an approval in each, and a step that fails for good."""
    tried: set[str] = set()

    def first_fails(call: StepCall) -> Outcome | None:
        if call.token in tried:
            return None
        tried.add(call.token)
        return fails()

    at.world.steps.of |= {"a": first_fails, "bad": lambda _: fails()}
    run_id = chained(at)
    at.world.pass_time(HOUR_MS)
    while at.world.header(run_id).status is Status.WAITING:
        branches = run_now(at.world.service.standing(run_id)).branches
        wait = next(one.id for one in branches if is_waiting(one))
        run_now(at.world.service.approve(run_id, who="eva", wait=wait))
        at.world.pass_time(HOUR_MS)
    return run_id


def started_later(at: Streamed) -> str:
    run_id = at.world.start(create_only=True)
    at.world.deliver()
    run_now(at.world.service.start_idle(run_id, "eva"))
    at.world.deliver()
    return run_id


def cancelled_unstarted(at: Streamed) -> str:
    run_id = at.world.start(create_only=True)
    run_now(at.world.service.cancel(run_id))
    return run_id


LIVES = [
    (CHAIN, chained), (APPROVAL, approved), (APPROVAL, cancelled), (APPROVAL, late), (EVENT, paid), (EVENT, late),
    (NAP, slept), (RETRY, failed), (MANUAL, started_later), (MANUAL, cancelled_unstarted),
]  # fmt: skip


def history(at: Streamed, run_id: str) -> list[dict[str, Json]]:
    """What the API tells of the run, of the types that the bus is told."""
    page = run_now(read_history(at.world.service, run_id, "", 500))
    return [entry_json(entry) for entry in page.entries if entry.type in TOLD]


def without_author(entry: dict[str, Json]) -> dict[str, Json]:
    """A run's start is told by its header, before any record says under which message it was."""
    return {**entry, "by": None} if entry["type"] == "run.started" else entry


@pytest.mark.parametrize("definition", [FORK, DAG], ids=["fork", "dag"])
@pytest.mark.parametrize("size", [1, 3, 100])
@pytest.mark.parametrize("cold", [False, True], ids=["warm", "cold"])
def test_the_bus_is_told_what_happened_in_branches(definition: str, size: int, cold: bool) -> None:
    """In whatever order: that of the stream is not that of the history, which goes by time."""
    with streamed(definition) as at:
        run_id = branched(at)
        records = at.records()
        for begin in range(0, len(records), size):
            at.take(records[begin : begin + size])
            if cold:
                at.restart()
        told = {event["entry"]["id"]: without_author(event["entry"]) for event in at.events()}
        assert told == {entry["id"]: without_author(entry) for entry in history(at, run_id)}
        wanted = {"step.failed", "step.retry_scheduled", "step.completed", "approval.requested", "approval.received"}
        assert wanted <= {entry["type"] for entry in told.values() if entry["token"].startswith("0/")}
        assert at.world.header(run_id).status == "completed"


@pytest.mark.parametrize(("definition", "live"), LIVES, ids=lambda one: getattr(one, "__name__", ""))
@pytest.mark.parametrize("size", [1, 3, 100])
@pytest.mark.parametrize("cold", [False, True], ids=["warm", "cold"])
def test_the_bus_is_told_the_history_as_the_api_tells_it(definition: str, live: Any, size: int, cold: bool) -> None:
    with streamed(definition) as at:
        run_id = live(at)
        records = at.records()
        for begin in range(0, len(records), size):
            at.take(records[begin : begin + size])
            if cold:
                at.restart()
        told = at.events()
        assert [without_author(event["entry"]) for event in told] == [
            without_author(entry) for entry in history(at, run_id)
        ]
        assert [event["id"] for event in told] == [f"{run_id}/{event['entry']['id']}" for event in told]
        assert told[-1]["status"] == at.world.header(run_id).status


def test_an_event_says_of_which_run_it_is_and_how_that_stood() -> None:
    with streamed(APPROVAL) as at:
        run_id = approved(at)
        at.take()
        assert [(event["type"], event["status"]) for event in at.events()] == [
            ("run.created", "pending"),
            ("run.started", "running"),
            ("approval.requested", "waiting"),
            ("approval.received", "running"),
            ("step.completed", "running"),
            ("step.completed", "completed"),
            ("run.completed", "completed"),
        ]
        first = at.events()[0]
        assert {name: first[name] for name in ("source", "run_id", "workflow", "tags", "data_left_out")} == {
            "source": "stepwell",
            "run_id": run_id,
            "workflow": "flow",
            "tags": {"team": "shop"},
            "data_left_out": False,
        }
        assert first["version"] == at.world.header(run_id).version
        assert first["links"] == {"run": f"/runs/{run_id}", "history": f"/runs/{run_id}/history"}
        assert first["entry"]["data"]["input"] == {"order": 1}


def test_a_pause_and_its_end_are_told_from_the_header() -> None:
    with streamed(APPROVAL) as at:
        run_id = at.world.start()
        at.world.deliver()
        run_now(at.world.service.pause(run_id, "the bank is down", "ana"))
        run_now(at.world.service.unpause(run_id))
        at.take()
        paused, unpaused = (event for event in at.events() if event["type"].endswith("paused"))
        assert (paused["type"], paused["status"], unpaused["type"]) == ("run.paused", "paused", "run.unpaused")
        assert (paused["entry"]["by"], paused["entry"]["data"]) == ("ana", {"reason": "the bank is down"})


def test_runs_that_go_on_under_the_same_eyes_are_told_without_a_read() -> None:
    with streamed(CHAIN) as at:
        runs = [chained(at) for _ in range(20)]
        at.world.meter.clear()
        taken = at.take(size=7)
        assert not at.world.meter.requests
        assert all(at.types(run_id)[-1] == "run.completed" for run_id in runs)
        assert sum(len(one.notices) for one in taken) == 20 * 5


def test_a_process_that_knows_nothing_reads_the_header_and_the_log_once_for_each_run() -> None:
    with streamed(CHAIN) as at:
        runs = [chained(at) for _ in range(5)]
        last = [one for one in at.records() if sort_of(one) == "LOG#0#0000000001"]
        assert len(last) == len(runs)
        at.world.meter.clear()
        at.take(last)
        assert at.world.meter.requests == Counter(query=2 * len(runs))


def test_a_batch_that_comes_again_is_told_with_the_same_ids() -> None:
    with streamed(CHAIN) as at:
        chained(at)
        records = at.records()
        at.take(records)
        at.take(records)
        ids = [event["id"] for event in at.events()]
        assert ids[: len(ids) // 2] == ids[len(ids) // 2 :]
        assert len(set(ids)) == len(ids) // 2


def counted_reads(at: Streamed) -> list[int]:
    """How many records each look into a log gives, from now on."""
    read: list[int] = []
    saved = at.world.store.inner._saved

    async def counted(*args: Any) -> Any:
        read.append(len(found := await saved(*args)))
        return found

    at.world.store.inner._saved = counted
    return read


def test_a_long_run_costs_no_read_while_it_is_followed() -> None:
    with streamed(LOOP) as at:
        numbers = count(1)
        at.world.steps.of["work"] = lambda _: next(numbers)
        run_id = chained(at)
        at.world.meter.clear()
        at.take()
        assert not at.world.meter.requests
        assert at.types(run_id)[-2:] == ["step.completed", "run.completed"]


def test_who_comes_late_to_a_long_run_reads_from_its_last_snapshot_on() -> None:
    with streamed(LOOP) as at:
        numbers = count(1)
        at.world.steps.of["work"] = lambda _: next(numbers)
        run_id = chained(at)
        read = counted_reads(at)
        at.take([one for one in at.records() if sort_of(one) >= "LOG#0#0000000690"])
        assert read == [100]  # of 700, the snapshot is of the 600th; and from then on none
        assert at.types(run_id).count("step.completed") == 10


def test_who_comes_late_to_a_record_from_before_the_last_snapshot_reads_from_the_start_page_by_page_and_once() -> None:
    with streamed(LOOP) as at:
        numbers = count(1)
        at.world.steps.of["work"] = lambda _: next(numbers)
        chained(at)
        read = counted_reads(at)
        at.take([one for one in at.records() if "LOG#0#0000000500" <= sort_of(one) < "LOG#0#0000000590"], size=10)
        assert read == [100, 100, 101, 101, 101, 101]  # after the snapshot, then the 500 before, each with one more


def test_a_large_output_is_told_and_one_too_large_for_the_bus_is_left_out() -> None:
    with streamed(CHAIN) as at:
        at.world.steps.of["a"] = lambda _: "x" * 150_000  # in the bucket, by its hash
        at.world.steps.of["b"] = lambda _: "y" * 300_000
        chained(at)
        at.take()
        first, second, end = at.events()[2:]
        assert (len(first["entry"]["data"]["output"]), first["data_left_out"]) == (150_000, False)
        assert (second["entry"]["data"], second["data_left_out"]) == (None, True)
        assert (second["type"], second["entry"]["step"]) == ("step.completed", "b")
        assert (end["type"], end["data_left_out"]) == ("run.completed", True)


def test_an_input_that_is_kept_apart_is_left_out() -> None:
    with streamed(CHAIN) as at:
        at.world.start(given="x" * 5_000)
        at.world.deliver()
        at.take()
        assert (at.events()[0]["entry"]["data"], at.events()[0]["data_left_out"]) == (None, True)


def test_events_go_ten_at_a_time_and_never_more_bytes_than_a_request_takes() -> None:
    with streamed(CHAIN) as at:
        for _ in range(5):
            chained(at)
        at.cloud.calls.clear()
        at.take()
        assert at.cloud.calls.count("PutEvents") == 3  # 25 events
        at.world.steps.of["a"] = lambda _: "x" * 100_000
        chained(at)
        at.world.steps.of["a"] = lambda _: "x" * 200_000
        chained(at)
        at.cloud.calls.clear()
        at.take()
        assert at.cloud.calls.count("PutEvents") == 2  # 10 events, but 300,000 bytes
        assert len(at.events()) == 7 * 5


def test_an_event_has_the_time_of_what_it_tells() -> None:
    with streamed(NAP) as at:
        slept(at)
        sent: list[dict[str, Any]] = []

        def seen(operation: str, request: Any) -> None:
            if operation == "PutEvents":
                sent.extend(json.loads(request.body)["Entries"])

        at.cloud.before = seen
        at.take()
        told = {event["DetailType"]: event["Time"] for event in sent}
        assert told["sleep.completed"] - told["sleep.started"] == pytest.approx(20 * DAY_MS / 1_000, abs=1)
        assert {event["EventBusName"] for event in sent} == {at.bus}


@pytest.mark.parametrize(("events", "told"), [("all", True), ("runs", False), ("none", False)])
def test_a_bus_is_told_of_steps_that_went_well_only_where_the_stack_wants_it(events: str, told: bool) -> None:
    bus = Bus("bus", lambda: pytest.fail("nothing is sent here"), events=events)
    run = header("r1")
    step, end = (Notice(run, Status.RUNNING, Entry("0@1.0", 0, kind, "0")) for kind in ("step.completed", "run.failed"))
    assert (bus.wants(step), bus.wants(end)) == (told, events != "none")
