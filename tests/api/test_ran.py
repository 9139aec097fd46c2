"""What ran in a run's branches, node by node: counts, attempts, times, errors, and how far the run is."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell import limits
from stepwell.engine.actions import Outcome
from stepwell.engine.records import Failure
from stepwell.runtime.calls import survey
from tests.api.kit import World

FORKED = """
workflow: forked
nodes:
  begin: {transitions: [{to: score, foreach: "{{ input.names }}", as: name}]}
  score: {run: python:m.score, transitions: [{to: ask}]}
  ask: {wait: {for: approval}, transitions: [{to: gather}]}
  gather: {fan_in: {policy: all, on_branch_failure: collect}, transitions: [{to: total}]}
  total: {run: python:m.total}
"""
LINED = """
workflow: lined
nodes:
  begin: {transitions: [{to: ask, foreach: "{{ input.names }}", as: name, max_concurrency: 2}]}
  ask: {wait: {for: approval}, transitions: [{to: gather}]}
  gather: {fan_in: {policy: all}}
"""
DAG = """
workflow: onboard
steps:
  - {name: flaky, run: python:m.flaky, timeout: 30s, retry: {max_retries: 1, initial_delay: 5s, on: [step]}}
  - {name: broken, run: python:m.broken, timeout: 30s, retry: {max_retries: 0}, on_failure: skip}
  - {name: ask, wait: {for: approval}, depends_on: [flaky]}
"""
AGAIN = """
workflow: again
nodes:
  begin: {max_visits: 9, transitions: [{to: score, foreach: "{{ [1, 2] }}", as: name}]}
  score: {run: python:m.score, transitions: [{to: gather}]}
  gather: {fan_in: {policy: all}, max_visits: 9, transitions: [{to: ask}]}
  ask: {wait: {for: approval}, max_visits: 9, transitions: [{to: end, when: "has(input.stop)"}, {to: begin}]}
"""
ODD = """
workflow: odd
nodes:
  begin: {transitions: [{to: score, foreach: "{{ input.numbers }}", as: name}]}
  score: {run: python:m.score, transitions: [{to: odd, when: "state.name % 2 == 1"}, {to: gather}]}
  odd: {run: python:m.odd, transitions: [{to: inner, when: "state.name > 140", foreach: "{{ [1, 2] }}"}, {to: gather}]}
  inner: {run: python:m.odd, transitions: [{to: met}]}
  met: {fan_in: {policy: all}, transitions: [{to: gather}]}
  gather: {fan_in: {policy: all}}
"""
PASSED = """
workflow: passed
nodes:
  begin: {transitions: [{to: ask, foreach: "{{ input.names }}", as: name}]}
  ask: {wait: {for: approval}, transitions: [{to: score}]}
  score: {run: python:m.score, transitions: [{to: gather}]}
  gather: {fan_in: {policy: all}}
"""
ROUNDS = """
workflow: rounds
nodes:
  begin: {max_visits: 9, transitions: [{to: ask, foreach: "{{ [1, 2] }}", as: name}]}
  ask: {wait: {for: approval}, max_visits: 9, transitions: [{to: gather}]}
  gather: {fan_in: {policy: all}, max_visits: 9, transitions: [{to: end, when: "has(input.stop)"}, {to: begin}]}
"""
FIRST = """
workflow: first
nodes:
  begin: {transitions: [{to: score, foreach: "{{ input.names }}", as: name, max_concurrency: 2}]}
  score: {run: python:m.score, transitions: [{to: gather}]}
  gather: {fan_in: {policy: any, first_failure: fail}}
"""


@pytest.fixture
def world() -> World:
    made = World(FORKED, LINED, DAG, AGAIN, FIRST, ODD, PASSED, ROUNDS)
    made.steps.functions["python:m.score"] = lambda call: (
        Outcome(failure=Failure("Broken", "step", "no luck", call.node, 1))
        if call.input.get("name") == "eva"
        else Outcome(7)
    )
    made.steps.functions["python:m.total"] = lambda call: Outcome(call.node)
    return made


def steps(world: World, run_id: str) -> dict[str, Any]:
    found: dict[str, Any] = world.get(f"/runs/{run_id}").json["steps"]
    return found


def test_a_retry_a_failure_and_an_approval_in_a_dag_are_everywhere_that_people_look(world: World) -> None:
    tries: list[str] = []

    def flaky(call: Any) -> Outcome:
        tries.append(call.node)
        return Outcome("ok") if len(tries) > 1 else Outcome(failure=Failure("Flaky", "step", "no luck", call.node, 1))

    world.steps.functions["python:m.flaky"] = flaky
    world.steps.functions["python:m.broken"] = lambda call: Outcome(
        failure=Failure("Broken", "step", "no", call.node, 1)
    )
    run_id = world.start("onboard")
    world.advance(10)

    found = steps(world, run_id)
    assert {name: (step["status"], step["attempts"]) for name, step in found.items()} == {
        "flaky": ("completed", 2), "broken": ("skipped", 1), "ask": ("waiting", 0),
    }  # fmt: skip
    assert found["broken"]["error"]["type"] == "Broken"
    told = [(entry["type"], entry["step"]) for entry in world.get(f"/runs/{run_id}/history").json["items"]]
    wanted = {("step.retry_scheduled", "flaky"), ("step.failed", "broken"), ("approval.requested", "ask")}
    assert wanted <= set(told)
    (listed,) = world.get("/runs", waiting_for="approval").json["items"]
    run = world.get(f"/runs/{run_id}").json
    assert (listed["run_id"], listed["current_steps"], listed["status"]) == (run_id, ["ask"], "waiting")
    assert listed["waiting_until"] == run["waiting_until"] is not None
    assert world.get("/stats").json["waits"] == {"approval": 1}
    drawn = world.get(f"/runs/{run_id}/graph", format="json").json["states"]
    assert drawn == {"flaky": "completed", "broken": "skipped", "ask": "waiting"}
    assert "2 tries #183; 10 s" in world.get(f"/runs/{run_id}/graph", format="mermaid").text
    assert [token["step"] for token in run["tokens"]] == ["ask"]


def test_a_step_of_branches_shows_how_many_are_in_each_status_and_the_first_error(world: World) -> None:
    run_id = world.start("forked", input={"names": ["ana", "eva", "leo"]})
    score = steps(world, run_id)["score"]
    assert score["branches"] == {"total": 3, "failed": 1, "completed": 2}
    assert (score["status"], score["attempts"], score["error"]["type"]) == ("failed", 3, "Broken")
    assert score["started_at"] is not None
    assert score["ended_at"] is not None
    assert steps(world, run_id)["ask"]["branches"] == {"total": 2, "waiting": 2}


def test_branches_are_still_counted_after_their_join(world: World) -> None:
    run_id = world.start("forked", input={"names": ["ana", "eva"]})
    assert world.post(f"/runs/{run_id}/approve", {"by": "kim"}).status == 200
    world.drain()
    run = world.get(f"/runs/{run_id}").json
    assert run["status"] == "completed"
    assert run["steps"]["ask"]["branches"] == {"total": 1, "completed": 1}
    assert run["steps"]["total"]["branches"] is None


def test_progress_counts_a_node_of_branches_once_all_have_left_it(world: World) -> None:
    run_id = world.start("forked", input={"names": ["ana", "leo"]})
    assert world.get(f"/runs/{run_id}").json["progress"] == "2/5"  # begin and score: ask is not over
    for branch in (0, 1):
        world.post(f"/runs/{run_id}/approve", {"by": "kim", "wait": f"0/0.{branch}"})
    world.drain()
    assert world.get(f"/runs/{run_id}").json["progress"] == "5/5"


def test_progress_counts_no_node_that_branches_are_still_before(world: World) -> None:
    """A node that all who came to have left is not over while others are on their way to it."""
    run_id = world.start("passed", input={"names": ["ana", "leo"]})
    world.post(f"/runs/{run_id}/approve", {"by": "kim", "wait": "0/0.0"})
    world.drain()
    found = steps(world, run_id)
    assert (found["score"]["status"], found["ask"]["status"]) == ("completed", "waiting")
    assert world.get(f"/runs/{run_id}").json["progress"] == "1/4"


def test_progress_counts_the_node_that_forked_also_where_its_join_leads_back_to_it(world: World) -> None:
    run_id = world.start("rounds")
    assert world.get(f"/runs/{run_id}").json["progress"] == "1/3"


def test_branches_that_begin_one_after_the_other_are_pending_until_they_may(world: World) -> None:
    run_id = world.start("lined", input={"names": ["ana", "leo", "eva"]})
    assert steps(world, run_id)["ask"]["branches"] == {"total": 3, "waiting": 2, "pending": 1}


@pytest.mark.parametrize(("width", "ended"), [(21, 10), (50, 24)])
def test_the_branches_of_a_wide_fork_are_counted_by_their_joins(
    world: World, width: int, ended: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(survey, "SURVEY_WIDTH", 20)
    monkeypatch.setattr(limits, "PAGE_BRANCHES", 20)
    run_id = world.start("lined", input={"names": list(range(width))})
    counts = steps(world, run_id)["ask"]["branches"]
    assert counts == {"total": width, "waiting": 2, "pending": width - 2}
    for branch in range(ended):
        assert world.post(f"/runs/{run_id}/approve", {"by": "kim", "wait": f"0/0.{branch}"}).status == 200
        world.drain()
    counts = steps(world, run_id)["ask"]["branches"]
    assert counts == {"total": width, "waiting": 2, "pending": width - ended - 2, "completed": ended}


def test_the_edges_of_a_wide_fork_are_counted_as_far_as_there_is_one_way(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And at the same reads for any width: a fork of a hundred and one has two sets of arrivals."""
    monkeypatch.setattr(survey, "SURVEY_WIDTH", 100)
    run_id = world.start("lined", input={"names": list(range(101))})
    for branch in range(7):
        world.post(f"/runs/{run_id}/approve", {"by": "kim", "wait": f"0/0.{branch}"})
        world.drain()
    graph = world.get(f"/runs/{run_id}/graph", format="json").json
    by_node = {edge["from"]: graph["taken"].get(edge["id"]) for edge in graph["edges"]}
    assert by_node["ask"] == 7


def test_each_node_and_each_edge_of_the_branches_of_a_fork_of_hundreds_is_counted(world: World) -> None:
    """Also of those that only some branches take, with their attempts; and of the forks in them."""
    world.steps.functions["python:m.odd"] = lambda call: Outcome(call.node)
    run_id = world.start("odd", input={"numbers": list(range(150))})
    found = steps(world, run_id)
    counts = {name: (step["branches"]["total"], step["attempts"]) for name, step in found.items() if step["branches"]}
    assert counts == {"score": (150, 150), "odd": (75, 75), "inner": (10, 10)}
    taken = world.get(f"/runs/{run_id}/graph", format="json").json["taken"]
    assert taken["score.transitions[0]"] == taken["odd.transitions[1]"] + 5 == 75


def test_branches_across_pages_are_pending_until_they_may_begin(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PAGE_BRANCHES", 20)
    run_id = world.start("lined", input={"names": list(range(22))})
    assert steps(world, run_id)["ask"]["branches"] == {"total": 22, "waiting": 2, "pending": 20}
    for _ in range(20):  # the first one waits to the end
        first, other = (token["id"] for token in world.get(f"/runs/{run_id}").json["tokens"])
        assert first == "0/0.0"
        world.post(f"/runs/{run_id}/approve", {"by": "kim", "wait": other})
        world.drain()
    assert steps(world, run_id)["ask"]["branches"] == {"total": 22, "waiting": 2, "completed": 20}


def test_of_a_fork_that_is_opened_again_the_last_one_counts(world: World) -> None:
    run_id = world.start("again")
    for _ in range(2):
        assert world.post(f"/runs/{run_id}/approve", {"by": "kim"}).status == 200
        world.drain()
    assert steps(world, run_id)["score"]["branches"] == {"total": 2, "completed": 2}


def test_running_branches_are_found_before_their_first_step_has_ended(world: World) -> None:
    seen: list[Any] = []

    def score(call: Any) -> Outcome:
        if not seen:
            score = steps(world, call.run_id)["score"]
            seen.append((score["branches"], score["attempts"]))
            page = world.get(f"/runs/{call.run_id}/branches", status="running").json["items"]
            seen.append([(branch["id"], branch["phase"], branch["current_step"]) for branch in page])
            tokens = world.get(f"/runs/{call.run_id}").json["tokens"]
            seen.append([(token["id"], token["phase"], token["step"]) for token in tokens])
            seen.append([(one["status"], one["attempts"]) for branch in page for one in branch["steps"].values()])
        return Outcome(7)

    world.steps.functions["python:m.score"] = score
    world.start("forked", input={"names": ["ana", "leo"]})
    running = [("0/0.0", "executing_step", "score"), ("0/0.1", "executing_step", "score")]
    assert seen == [({"total": 2, "running": 2}, 2), running, running, [("running", 1), ("running", 1)]]


TRIES = """
workflow: tries
nodes:
  begin: {run: python:m.go, RETRY, transitions: [{to: score, foreach: "{{ [1, 2, 3] }}", max_concurrency: 2}]}
  score: {run: python:m.score, RETRY, transitions: [{to: gather}]}
  gather: {fan_in: {policy: all}}
""".replace("RETRY", "timeout: 30s, retry: {max_retries: 2, backoff: constant, initial_delay: 5s, on: [step]}")
TRIED_DAG = "workflow: tries\nsteps: [{name: score, run: python:m.score, timeout: 30s, RETRY}]".replace(
    "RETRY", "retry: {max_retries: 2, backoff: constant, initial_delay: 5s, on: [step]}"
)


def failing_once(world: World, look: Any) -> Any:
    """A step whose first attempt of each branch fails; `look` is called while the second runs."""
    tried: set[str] = set()

    def step(call: Any) -> Outcome:
        key = f"{call.node}{call.token}"
        if key not in tried:
            tried.add(key)
            return Outcome(failure=Failure("Flaky", "step", "no luck", call.node, 1))
        look(call)
        return Outcome(7)

    return step


@pytest.mark.parametrize("definition", [TRIES, TRIED_DAG], ids=["fork", "dag"])
def test_a_second_attempt_counts_from_when_it_is_due(definition: str) -> None:
    world, seen = World(definition), list[Any]()

    def look(call: Any) -> None:
        node = call.node
        view = steps(world, call.run_id)[node]
        drawn = world.get(f"/runs/{call.run_id}/graph", format="json").json["steps"][node]
        branch = [one["steps"][node]["attempts"] for one in branches(world, call.run_id) if one["id"] == call.token]
        seen.append((node, view["status"], view["attempts"], drawn["attempts"], *branch))

    world.steps.functions["python:m.go"] = world.steps.functions["python:m.score"] = failing_once(world, look)
    run_id = world.start("tries")
    first = "begin" if definition is TRIES else "score"
    assert steps(world, run_id)[first]["attempts"] == 1  # its second is not due
    for _ in range(4):
        world.advance(5)
    if definition is TRIED_DAG:
        assert seen == [("score", "running", 2, 2, 2)]
    else:  # of two branches that are due, both count; the third begins when the first has ended
        assert seen == [("begin", "running", 2, 2), *(("score", "running", count, count, 2) for count in (4, 5, 6))]


def branches(world: World, run_id: str) -> list[Any]:
    answer = world.get(f"/runs/{run_id}/branches")
    return answer.json["items"] if answer.status == 200 else []


def test_a_run_that_is_paused_begins_no_second_attempt_and_shows_the_one_that_had_begun() -> None:
    world, seen = World(TRIES), list[Any]()

    def look(call: Any) -> None:
        world.post(f"/runs/{call.run_id}/pause", {})
        seen.append(steps(world, call.run_id)["begin"]["attempts"])

    world.steps.functions["python:m.go"] = failing_once(world, look)
    run_id = world.start("tries")
    world.post(f"/runs/{run_id}/pause", {})
    world.advance(60)
    assert steps(world, run_id)["begin"]["attempts"] == 1
    world.post(f"/runs/{run_id}/unpause", {})
    world.drain()
    assert seen == [2]


def test_the_first_step_of_a_branch_began_when_the_branch_was_woken(world: World) -> None:
    """At its fork; of one that begins after another, when that one ended."""
    seen: list[Any] = []

    def look(call: Any) -> None:
        page = branches(world, call.run_id)
        seen.append([one["steps"]["score"]["started_at"] if one["steps"] else None for one in page])
        seen.append(steps(world, call.run_id)["score"]["started_at"])

    world = World(TRIES)
    world.steps.functions["python:m.go"] = lambda call: Outcome(1)

    def score(call: Any) -> Outcome:
        look(call)
        world.clock.advance(1_000)
        return Outcome(7)

    world.steps.functions["python:m.score"] = score
    world.start("tries")
    forked, first_ended = (f"2027-01-15T08:00:0{second}.000Z" for second in range(2))
    last = [forked, forked, first_ended]
    assert seen == [[forked, forked, None], forked, last, forked, last, forked]


def test_branches_that_were_cancelled_before_they_had_a_record_are_counted(world: World) -> None:
    run_id = world.start("first", input={"names": ["eva", "ada", "bob", "cyd"]})
    assert world.get(f"/runs/{run_id}").json["status"] == "failed"
    assert steps(world, run_id)["score"]["branches"] == {"total": 4, "failed": 1, "cancelled": 3}


def test_branches_of_a_wide_fork_that_waited_are_cancelled_with_their_run(world: World) -> None:
    run_id = world.start("lined", input={"names": [f"n{number}" for number in range(150)]})
    assert world.get(f"/runs/{run_id}").json["steps"]["ask"]["branches"]["waiting"] == 2
    world.post(f"/runs/{run_id}/cancel", {})
    step = world.get(f"/runs/{run_id}").json["steps"]["ask"]
    assert (step["status"], step["branches"]) == ("cancelled", {"total": 150, "cancelled": 150})
