"""What `explain` says of steps that are tried again later, and of those that were blocked."""

from __future__ import annotations

import re
from typing import Any

import pytest

from stepwell.definition.graph import Limit
from stepwell.engine.actions import Outcome
from stepwell.engine.records import Failure
from stepwell.errors import PortError
from stepwell.runtime.steps.port import StepCall
from tests.api.kit import World

RETRY = "retry: {max_retries: 5, backoff: constant, initial_delay: 10m, max_delay: 10m}"
DAG = f"""
workflow: dag
steps:
  - {{name: call, run: python:m.call, timeout: 5s, {RETRY}}}
  - {{name: ask, wait: {{for: approval}}}}
"""
FORK = f"""
workflow: fork
nodes:
  begin: {{transitions: [{{to: call, foreach: "{{{{ input }}}}"}}]}}
  call: {{run: python:m.call, timeout: 5s, {RETRY}, transitions: [{{to: gather}}]}}
  gather: {{fan_in: {{policy: all}}}}
"""
LINE = """
workflow: line
timeline:
  - {name: call, run: python:m.call, timeout: 5s}
"""

NESTED = """
workflow: nested
nodes:
  begin: {fan_out: all, transitions: [{to: inner}, {to: nap}]}
  inner: {fan_out: all, transitions: [{to: ask}, {to: hear}]}
  ask: {wait: {for: approval, timeout: 1d}, transitions: [{to: both}]}
  hear: {wait: {for: event, name: paid}, transitions: [{to: both}]}
  both: {fan_in: {}, transitions: [{to: gather}]}
  nap: {sleep: 2h, transitions: [{to: gather}]}
  gather: {fan_in: {}}
"""
BESIDE = """
workflow: beside
steps:
  - {name: hear, wait: {for: event, name: paid, timeout: 2h}}
  - {name: exam, wait: {for: test, timeout: 1h}}
  - {name: ask, wait: {for: approval, timeout: 1d}}
"""


def failing(category: str, message: str) -> World:
    world = World(DAG, FORK, LINE)
    world.steps.functions["python:m.call"] = lambda call: Outcome(failure=Failure("Away", category, message, call.node))
    return world


def test_a_step_of_a_dag_that_is_tried_again_later_is_woken_by_its_timer() -> None:
    """No message of it is in the queue meanwhile."""
    world = failing("transient", "down")
    told = world.get(f"/runs/{world.start('dag')}/explain").json
    assert "Attempt 2 of call is due at" in told["why"]
    assert {waker["what"] for waker in told["wakers"]} == {"call", "timer"}
    assert told["next_retry_at"] in {waker["at"] for waker in told["wakers"]}
    assert told["in_queue"] is False


def test_branches_that_are_tried_again_later_name_the_first_of_their_timers() -> None:
    world = failing("transient", "down")
    told = world.get(f"/runs/{world.start('fork', input=[1, 2])}/explain").json
    assert "2 of them retry. Attempt 2 of call is due at" in told["why"]
    assert [waker["what"] for waker in told["wakers"]] == ["timer", "branch"]
    assert told["next_retry_at"] == told["wakers"][0]["at"]


def test_an_approval_that_a_blocked_step_asks_for_says_why_it_was_blocked() -> None:
    world = failing("governance", "over the budget")
    told = world.get(f"/runs/{world.start('line')}/explain").json
    assert told["why"].startswith("call was blocked: over the budget. It waits at call for approval since")


def test_a_wait_for_a_callback_names_no_event_that_a_person_could_send() -> None:
    world = World("workflow: lab\ntimeline: [{name: blood, wait: {for: callback, timeout: 1h}}]")
    told = world.get(f"/runs/{world.start('lab')}/explain").json
    assert told["why"].startswith("It waits at blood for callback since ")


def test_a_run_whose_branches_fork_and_all_wait_is_explained_by_the_wait_that_it_shows() -> None:
    world = World(NESTED)
    run_id = world.start("nested")
    told, shown = world.get(f"/runs/{run_id}/explain").json, world.get(f"/runs/{run_id}").json
    assert told["waiting_for"] == shown["waiting_for"] == "approval"
    assert f"first of them ask for approval, until {shown['waiting_until']}." in told["why"]
    assert {"timer": shown["waiting_until"], "branch": None} == {one["what"]: one["at"] for one in told["wakers"]}


def test_a_dag_whose_steps_all_wait_is_explained_by_the_wait_that_it_shows() -> None:
    world = World(BESIDE)
    run_id = world.start("beside")
    told, shown = world.get(f"/runs/{run_id}/explain").json, world.get(f"/runs/{run_id}").json
    assert told["waiting_for"] == shown["waiting_for"] == "approval"
    world.post(f"/runs/{run_id}/approve")
    world.drain()
    told, shown = world.get(f"/runs/{run_id}/explain").json, world.get(f"/runs/{run_id}").json
    assert told["waiting_for"] == shown["waiting_for"] == "test"


MAP = """
workflow: machine
StartAt: Each
States:
  Each:
    Type: Map
    End: true
    ItemProcessor: {StartAt: Nap, States: {Nap: {Type: Wait, Seconds: 60, End: true}}}
"""


def test_a_map_state_is_named_as_it_is_written() -> None:
    """Not by the node that the compiler adds before it."""
    world = World(MAP)
    run_id = world.start("machine", input=[1, 2])
    assert world.get(f"/runs/{run_id}").json["forked"]["node"] == "Each"
    assert world.get(f"/runs/{run_id}/explain").json["why"].startswith("It waits for the 2 branches of Each. 2 wait, ")


ONCE = """
workflow: once
timeline:
  - {name: charge, run: python:m.charge, timeout: 5m, at_most_once: true}
"""
ONCE_BESIDE = """
workflow: beside_once
steps:
  - {name: charge, run: python:m.charge, timeout: 5m, at_most_once: true}
  - {name: ask, wait: {for: approval}}
"""


def lost(definition: str, name: str) -> tuple[World, str]:
    """A run whose worker died in its at_most_once step."""
    world = World(definition)

    def die(call: StepCall) -> Outcome:
        raise PortError("the worker died in the step")

    world.steps.functions["python:m.charge"] = die
    run_id = world.post(f"/workflows/{name}/runs", {}).json["run_id"]
    with pytest.raises(PortError):
        world.drain()
    world.drain()
    return world, run_id


def test_an_at_most_once_step_whose_worker_may_be_lost_is_no_retry() -> None:
    """Only its outcome is open: it is never tried again."""
    world, run_id = lost(ONCE, "once")
    told = world.get(f"/runs/{run_id}/explain").json
    due = next(one for one in told["wakers"] if one["what"] == "timer")
    assert told["why"].startswith("A worker runs charge, attempt 1, since ")
    assert told["why"].endswith(f"if its worker was lost, it fails with outcome_unknown at {due['at']}.")
    assert due["detail"] == "charge fails with outcome_unknown if its worker was lost"
    assert (told["next_retry_at"], told["in_queue"]) == (None, True)
    world.advance(6 * 60)
    assert world.get(f"/runs/{run_id}").json["error"]["type"] == "outcome_unknown"


def test_an_at_most_once_step_beside_others_is_no_retry_either() -> None:
    world, run_id = lost(ONCE_BESIDE, "beside_once")
    told = world.get(f"/runs/{run_id}/explain").json
    assert "A worker runs charge, attempt 1, since " in told["why"]
    assert (told["next_retry_at"], told["in_queue"], told["waiting_for"]) == (None, True, None)
    assert not [one for one in told["wakers"] if "backoff" in one["detail"]]


SCAN = """
workflow: scan
nodes:
  begin: {transitions: [{to: ocr, foreach: "{{ input }}", as: page}]}
  ocr: {run: python:m.ocr, throttle: ocr, transitions: [{to: gather}]}
  gather: {fan_in: {policy: all}}
"""


@pytest.mark.parametrize("width", [600, 1_200])
def test_a_fork_of_too_many_branches_to_be_read_names_the_limit_that_holds_them_back(width: int) -> None:
    told = explained_amid_scan(width)
    assert re.match(rf"It waits for the {width} branches of begin, which meet at gather: .*\d+ waiting, "
                    r"(some )?for the limit ocr\.", told["why"])  # fmt: skip
    assert [one["detail"] for one in told["wakers"]] == [
        "GET /limits/ocr shows who has its permits",
        "GET /runs/scan-1/branches?status=waiting lists the branches that wait",
    ]


def explained_amid_scan(width: int) -> Any:
    """What is explained of a run while one of its branches has the only permit."""
    world = World(SCAN)
    world.parts.catalog.limits = {"ocr": Limit(1)}
    seen: list[dict[str, Any]] = []

    def ocr(_: StepCall) -> Outcome:
        if not seen:
            world.drain()  # the others ask for their permit meanwhile
            seen.append(world.get("/runs/scan-1/explain").json)
        return Outcome("text")

    world.steps.functions["python:m.ocr"] = ocr
    world.start("scan", run_id="scan-1", input=[*range(width)])
    (told,) = seen
    return told


def test_a_fork_whose_branches_wait_for_a_limit_counts_them_and_names_it() -> None:
    """They are read to be counted where they are more than one page."""
    told = explained_amid_scan(120)
    assert re.match(r"It waits for the \d+ branches of begin, which meet at gather: .*\d+ waits? for the limit ocr\.",
                    told["why"])  # fmt: skip
    assert [one["detail"] for one in told["wakers"]] == [
        "GET /limits/ocr shows who has its permits",
        "GET /runs/scan-1/branches?status=waiting lists the branches that wait",
    ]


def test_a_paused_run_that_left_the_line_of_a_limit_asks_again_without_the_pause() -> None:
    world = World("workflow: scan\ntimeline: [{name: ocr, run: python:m.ocr, throttle: ocr}]\n")
    world.parts.catalog.limits = {"ocr": Limit(1)}

    def ocr(call: StepCall) -> Outcome:
        if call.run_id == "scan-1":
            world.start("scan", run_id="scan-2")
            world.drain()
            assert world.post("/runs/scan-2/pause", {}).status == 200
        return Outcome("text")

    world.steps.functions["python:m.ocr"] = ocr
    world.start("scan", run_id="scan-1")
    world.drain()
    assert (
        world.get("/runs/scan-2/explain")
        .json["why"]
        .endswith("Without the pause: It asks again for the limit ocr, whose line it left for a pause.")
    )
