"""A paused run as its readers see it: in the API, in each format's words, on the command line, and in the kit."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from stepwell.errors import Conflict
from stepwell.runtime.loop.driving import run_now
from stepwell.testing.kit import Stepwell
from tests.api.kit import World
from tests.aws.test_costs import APPROVAL, waiting

WHY = {"reason": "the bank is down", "by": "ana"}


@pytest.fixture
def paused() -> tuple[World, str]:
    world = World()
    run_id = world.start()
    world.advance(5)
    reply = world.post(f"/runs/{run_id}/pause", WHY)
    assert (reply.status, reply.json["status"]) == (200, "paused")
    return world, run_id


def test_a_view_says_who_paused_a_run_and_keeps_its_phase_and_its_wait(paused: tuple[World, str]) -> None:
    world, run_id = paused
    view = world.get(f"/runs/{run_id}").json
    assert (view["phase"], view["waiting_for"], view["current_steps"]) == (
        "waiting_for_approval", "approval", ["approve"])  # fmt: skip
    assert view["pending_reason"] == "paused by ana since 2027-01-15T08:00:05.000Z: the bank is down"


def test_a_list_says_nothing_of_a_wait_that_ended_while_its_run_was_paused() -> None:
    world = World("workflow: nap\ntimeline: [{name: nap, sleep: 60s}, {name: more, sleep: 60s}]")
    run_id = world.start("nap")
    world.advance(5)
    world.post(f"/runs/{run_id}/pause", WHY)
    told = []
    for seconds in (0, 60):
        world.advance(seconds)
        (listed,) = world.get("/runs").json["items"]
        view = world.get(f"/runs/{run_id}").json
        assert listed["waiting_until"] == view["waiting_until"]
        told.append((listed["status"], listed["current_steps"], listed["waiting_for"]))
    assert told == [("paused", ["nap"], "sleep"), ("paused", ["nap"], None)]


def test_each_format_has_its_own_word_for_a_paused_run(paused: tuple[World, str]) -> None:
    world, run_id = paused
    words = {name: world.get(f"/runs/{run_id}", **{"as": name}).json["status"]
             for name in ("timeline", "agent", "session", "dag")}  # fmt: skip
    assert words == {"timeline": "waiting_for_approval", "agent": "WAITING", "session": "Suspended", "dag": "blocked"}


@pytest.mark.parametrize(
    ("node", "timeline", "agent"),
    [
        ("wait: {for: response}", "executing_step", "WAITING"),
        ("children: [{workflow: nap}]", "waiting_for_subworkflows", "WAITING"),
        ("sleep: 1h", "sleeping", "WAITING"),
        ("transitions: [{to: rest, foreach: '[1, 2]'}]", "sleeping", "WAITING"),
        ("run: python:shop.fails, retry: {max_retries: 1, on: [step]}", "executing_step", "RUNNING"),
    ],
)
def test_a_paused_run_has_the_word_of_a_timeline_or_an_agent_that_it_had_before(
    node: str, timeline: str, agent: str
) -> None:
    fork = "\n  rest: {sleep: 1h, transitions: [{to: both}]}\n  both: {fan_in: {}}" if "foreach" in node else ""
    world = World(f"workflow: flow\nnodes:\n  first: {{{node}}}{fork}", "workflow: nap\nnodes: {rest: {sleep: 1h}}")
    run_id = world.start("flow")
    before = {name: world.get(f"/runs/{run_id}", **{"as": name}).json["status"] for name in ("timeline", "agent")}
    assert before == {"timeline": timeline, "agent": agent}
    world.post(f"/runs/{run_id}/pause")
    assert before == {name: world.get(f"/runs/{run_id}", **{"as": name}).json["status"] for name in before}


def test_an_explanation_says_what_the_run_would_do_and_who_can_have_it_go_on(paused: tuple[World, str]) -> None:
    world, run_id = paused
    found = world.get(f"/runs/{run_id}/explain").json
    assert found["why"].startswith("It is paused by ana since 2027-01-15T08:00:05.000Z: the bank is down. Without the")
    assert "It waits at approve for approval" in found["why"]
    assert [one["detail"] for one in found["wakers"]] == [
        f"POST /runs/{run_id}/unpause has it go on",
        "the wait times out then, though it is paused",
    ]
    assert not found["nothing_can_wake_it"]


def test_paused_runs_are_listed_counted_and_go_on_once(paused: tuple[World, str]) -> None:
    world, run_id = paused
    assert [one["run_id"] for one in world.get("/runs", status="paused").json["items"]] == [run_id]
    assert world.get("/stats").json["statuses"]["paused"]["count"] == 1
    assert world.post(f"/runs/{run_id}/unpause", {"by": "ana"}).json["status"] == "waiting"
    again = world.post(f"/runs/{run_id}/unpause")
    assert (again.status, again.json["type"]) == (409, "urn:stepwell:not_paused")


def test_the_kit_pauses_and_unpauses(tmp_path: Path) -> None:
    kit = Stepwell(tmp_path)
    kit.define("workflow: nap\ntimeline: [{name: rest, sleep: 1h}, {name: last, sleep: 1h}]")
    run = kit.start("nap", {})
    kit.advance("1s")
    run.pause("wait", by="ana")
    kit.advance("3h")
    assert (run.status, run.view["current_steps"]) == ("paused", ["rest"])
    run.unpause()
    assert (run.status, run.view["current_steps"]) == ("waiting", ["last"])
    with pytest.raises(Conflict, match="the run is not paused"):
        run.unpause()


def test_on_aws_a_pause_writes_the_header_and_a_mark_and_its_end_the_header_alone() -> None:
    """The mark is met once by the record that follows it, which costs its removal and a refused write."""
    with waiting(APPROVAL) as (world, run_id):
        before = Counter(world.meter.units)
        run_now(world.service.pause(run_id))
        assert Counter(world.meter.units) - before == Counter(RUN=1, LOG=1)
        before = Counter(world.meter.units)
        run_now(world.service.unpause(run_id))
        assert Counter(world.meter.units) - before == Counter(RUN=1)
        assert Counter(world.sent)["SendMessage"] == 1
        world.deliver()
        run_now(world.service.approve(run_id))
        world.deliver()
        assert world.header(run_id).status == "completed"


def test_a_paused_workflow_is_shown_wherever_its_runs_are() -> None:
    world = World()
    told = world.post("/workflows/order/pause", WHY)
    pause = {"workflow": "order", "since": "2027-01-15T08:00:00.000Z", **WHY}
    assert (told.status, told.json) == (200, {**pause, "paused_before": False})
    run_id = world.start()
    world.advance(5)
    since = "2027-01-15T08:00:00.001Z"  # the run itself is paused after it was made
    assert world.get("/workflows/order").json["paused"] == pause
    assert {one["name"] for one in world.get("/workflows").json["items"] if one["paused"]} == {"order"}
    assert world.get("/stats").json["paused"] == [pause]
    view = world.get(f"/runs/{run_id}").json
    assert view["status"] == "paused"
    assert view["pending_reason"] == f"paused with its workflow order by ana since {since}: the bank is down"
    found = world.get(f"/runs/{run_id}/explain").json
    assert [one["detail"] for one in found["wakers"]] == ["POST /workflows/order/unpause has it go on"]
    refused = world.post(f"/runs/{run_id}/unpause")
    assert (refused.status, refused.json["code"]) == (409, "workflow_paused")
    assert "stepwell unpause order" in refused.json["hint"]
    assert world.post("/workflows/order/unpause", {"by": "ana"}).json == pause
    world.advance(5)
    assert world.get(f"/runs/{run_id}").json["status"] == "waiting"
    assert world.get("/stats").json["paused"] == []


def test_all_workflows_are_paused_and_go_on_together() -> None:
    world = World()
    assert world.post("/workflows:pause", WHY).json["workflow"] == "*"
    run_id = world.start()
    world.advance(5)
    assert world.get("/workflows/order").json["paused"]["workflow"] == "*"
    assert "paused with all workflows by ana" in world.get(f"/runs/{run_id}").json["pending_reason"]
    found = world.get(f"/runs/{run_id}/explain").json
    assert [one["detail"] for one in found["wakers"]] == ["POST /workflows:unpause has it go on"]
    assert world.post("/workflows:unpause").json["by"] == "ana"
    assert world.post("/workflows:unpause").json["code"] == "not_paused"
    assert world.post("/workflows/nobody/pause", {}).json["code"] == "unknown_workflow"
    assert world.post("/workflows/stepwell:batch/pause", {}).status == 422


_NAP = "{name: nap, sleep: 60s}"
_FORK = (
    "nodes: {begin: {fan_out: all, transitions: [{to: nap}, {to: rest}]}, nap: {sleep: 60s, transitions: [{to: both}]},"
    " rest: {sleep: 1h, transitions: [{to: both}]}, both: {fan_in: {}}}"
)
_PARALLEL = """
StartAt: each
States:
  each: {Type: Parallel, End: true, Branches: [
    {StartAt: nap, States: {nap: {Type: Wait, Seconds: 60, End: true}}},
    {StartAt: rest, States: {rest: {Type: Wait, Seconds: 3600, End: true}}}]}
"""


@pytest.mark.parametrize(
    "written",
    [f"timeline: [{_NAP}]", f"steps: [{_NAP}, {{name: rest, sleep: 1h}}]", _FORK, _PARALLEL],
    ids=["timeline", "steps", "nodes", "States"],
)
def test_a_wait_that_ended_during_the_pause_is_not_shown_as_waiting(written: str) -> None:
    """Its node is left only when the run goes on."""
    world = World(f"workflow: flow\n{written}")
    run_id = world.start("flow")
    world.post(f"/runs/{run_id}/pause")
    world.advance(61)
    shown = "paused" if written in (_FORK, _PARALLEL) else "running"  # of a branch, and of the run itself
    assert world.get(f"/runs/{run_id}").json["steps"]["nap"]["status"] == shown
    world.post(f"/runs/{run_id}/unpause")
    view = world.get(f"/runs/{run_id}").json
    assert (view["status"], view["steps"]["nap"]["status"]) == ("running", "running")
    assert [one["phase"] for one in view["tokens"] if one["step"] == "nap"] == ["executing_step"]
    world.drain()
    view = world.get(f"/runs/{run_id}").json
    assert view["steps"]["nap"]["status"] == "completed"
    assert view["status"] == ("completed" if len(view["steps"]) == 1 else "waiting")
