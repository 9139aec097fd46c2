"""DAGs as the API shows them: every step with its status, what runs now, how far it is, and the picture."""

from __future__ import annotations

import pytest

from stepwell.definition.graph import Json
from stepwell.engine.actions import Outcome
from stepwell.engine.records import Failure
from tests.api.kit import World

ONBOARD = """
workflow: onboard
steps:
  - {name: account, run: python:crm.account, timeout: 30s}
  - {name: provision, run: python:crm.provision, depends_on: [account], timeout: 5m}
  - {name: ask, wait: {for: approval}, depends_on: [account]}
  - {name: welcome, run: python:crm.welcome, depends_on: [provision, ask], timeout: 30s, on_failure: skip}
  - {name: report, run: python:crm.report, depends_on: [welcome], timeout: 30s}
"""
FORKED = """
workflow: forked
nodes:
  begin:
    fan_out: all
    transitions:
      - {to: score, foreach: "{{ input.names }}", as: name}
      - {to: audit, when: "has(input.audit)"}
      - {to: log}
  score: {run: python:m.score, timeout: 1m, transitions: [{to: gather}]}
  audit: {run: python:m.audit, timeout: 1m, transitions: [{to: gather}]}
  log: {run: python:m.log, timeout: 1m, transitions: [{to: gather}]}
  gather: {fan_in: {policy: {m_of_n: 2}}, run: python:m.total, timeout: 1m}
"""


@pytest.fixture
def world() -> World:
    made = World(ONBOARD, FORKED)
    for name in ("account", "provision", "welcome", "report"):
        made.steps.functions[f"python:crm.{name}"] = lambda call: Outcome(call.node)
    return made


def breaks(world: World, name: str) -> None:
    world.steps.functions[f"python:crm.{name}"] = lambda call: Outcome(
        failure=Failure("Broken", "step", "no luck", call.node)
    )


def statuses(world: World, run_id: str) -> dict[str, str]:
    steps: dict[str, Json] = world.get(f"/runs/{run_id}").json["steps"]
    return {name: step["status"] for name, step in steps.items()}


def approved(world: World, run_id: str) -> None:
    assert world.post(f"/runs/{run_id}/approve", {"wait": "ask", "by": "kim"}).status == 200
    world.drain()


def test_a_dag_that_has_not_begun_shows_all_its_steps_as_pending(world: World) -> None:
    run_id = world.post("/workflows/onboard/runs", {}).json["run_id"]
    run = world.get(f"/runs/{run_id}").json
    assert {step["status"] for step in run["steps"].values()} == {"pending"}
    assert (list(run["steps"]), run["current_steps"], run["progress"]) == (
        ["account", "provision", "ask", "welcome", "report"], [], "0/5")  # fmt: skip


def test_a_dag_under_way_shows_every_step_with_its_status(world: World) -> None:
    run_id = world.start("onboard")
    assert statuses(world, run_id) == {
        "account": "completed", "provision": "completed", "ask": "waiting", "welcome": "pending", "report": "pending",
    }  # fmt: skip
    run = world.get(f"/runs/{run_id}").json
    assert (run["status"], run["current_steps"], run["progress"]) == ("waiting", ["ask"], "2/5")
    assert run["steps"]["provision"]["output"] == "provision"


def test_a_dag_whose_run_holds_a_lock_shows_its_steps(world: World) -> None:
    locked = World(ONBOARD + "lock: door\n")
    locked.steps.functions.update(world.steps.functions)
    run_id = locked.start("onboard")
    run = locked.get(f"/runs/{run_id}").json
    assert (run["status"], run["current_steps"], run["progress"]) == ("waiting", ["ask"], "2/5")


def test_a_step_at_work_is_running_and_what_follows_it_pending(world: World) -> None:
    seen = []

    def account(_: object) -> Outcome:
        seen.append(world.get(f"/runs/{run_id}").json)
        return Outcome(1)

    world.steps.functions["python:crm.account"] = account
    run_id = world.post("/workflows/onboard/runs", {}).json["run_id"]
    world.drain()
    step = seen[0]["steps"]["account"]
    assert (step["status"], step["attempts"], seen[0]["current_steps"]) == ("running", 1, ["account"])
    assert seen[0]["steps"]["account"]["started_at"] is not None
    assert seen[0]["steps"]["provision"]["status"] == "pending"


def test_steps_that_run_side_by_side_are_all_current(world: World) -> None:
    seen = []

    def provision(_: object) -> Outcome:
        seen.append(world.get(f"/runs/{run_id}").json["current_steps"])
        return Outcome(1)

    world.steps.functions["python:crm.provision"] = provision
    run_id = world.post("/workflows/onboard/runs", {}).json["run_id"]
    world.drain()
    assert seen == [["provision", "ask"]]


def test_a_dag_that_completed_shows_what_every_step_brought(world: World) -> None:
    breaks(world, "welcome")
    run_id = world.start("onboard")
    approved(world, run_id)
    run = world.get(f"/runs/{run_id}").json
    assert (run["status"], run["progress"], run["current_steps"], run["cost"]["steps"]) == ("completed", "5/5", [], 3)
    assert statuses(world, run_id) == {
        "account": "completed", "provision": "completed", "ask": "completed", "welcome": "skipped", "report": "skipped",
    }  # fmt: skip
    assert run["steps"]["welcome"]["error"]["type"] == "Broken"
    assert run["steps"]["report"]["error"] is None
    assert run["result"]["report"] is None


def test_a_dag_that_failed_shows_which_step_failed_which_was_ended_and_which_never_began(world: World) -> None:
    breaks(world, "provision")
    run_id = world.start("onboard")
    run = world.get(f"/runs/{run_id}").json
    assert statuses(world, run_id) == {
        "account": "completed", "provision": "failed", "ask": "cancelled", "welcome": "pending", "report": "pending",
    }  # fmt: skip
    assert (run["status"], run["progress"], run["current_steps"]) == ("failed", "1/5", [])
    assert (run["error"]["type"], run["error"]["step"], run["error"]["message"]) == ("Broken", "provision", "no luck")


def test_a_step_between_two_attempts_is_running(world: World) -> None:
    world.steps.functions["python:crm.provision"] = lambda call: Outcome(
        failure=Failure("Away", "transient", "try later", call.node, call.attempt)
    )
    run_id = world.start("onboard")
    step = world.get(f"/runs/{run_id}").json["steps"]["provision"]
    assert (step["status"], step["attempts"], step["error"]["type"]) == ("running", 1, "Away")
    world.advance(1)
    assert world.get(f"/runs/{run_id}").json["steps"]["provision"]["attempts"] == 2


def test_a_dag_that_was_created_and_started_later_shows_its_steps(world: World) -> None:
    run_id = world.start("onboard", create_only=True)
    assert set(statuses(world, run_id).values()) == {"pending"}
    world.post(f"/runs/{run_id}/start")
    world.drain()
    assert statuses(world, run_id)["provision"] == "completed"


def test_the_graph_of_a_dag_has_its_dependencies_and_the_status_of_what_began(world: World) -> None:
    run_id = world.start("onboard")
    graph = world.get(f"/runs/{run_id}/graph", format="json").json
    assert [(edge["from"], edge["to"]) for edge in graph["edges"]] == [
        ("account", "provision"), ("account", "ask"), ("provision", "welcome"), ("ask", "welcome"),
        ("welcome", "report"),
    ]  # fmt: skip
    assert {edge["stage"] for edge in graph["edges"]} == {"depends_on"}
    assert [node["name"] for node in graph["nodes"] if node["terminal"]] == ["report"]
    assert graph["states"] == {"account": "completed", "provision": "completed", "ask": "waiting"}
    assert set(graph["taken"]) == {"provision.depends_on[0]", "ask.depends_on[0]", "welcome.depends_on[0]"}


def test_the_picture_of_a_dag_leads_from_the_start_over_the_dependencies_to_the_end(world: World) -> None:
    run_id = world.start("onboard")
    drawn = world.get(f"/runs/{run_id}/graph", format="mermaid").text
    lines = [line.strip() for line in drawn.splitlines() if "-->" in line]
    assert lines == [
        "s --> n0", "n0 --> n1", "n0 --> n2", "n1 --> n3", "n2 --> n3", "n3 --> n4", "n4 --> e",
    ]  # fmt: skip
    assert "linkStyle 0,1,2,3 stroke-width:3px" in drawn  # as far as `provision` and `ask`, which waits
    assert world.get(f"/runs/{run_id}/graph", format="svg").text.startswith("<svg")


def test_why_a_dag_stands_still_is_told_of_each_step_that_waits(world: World) -> None:
    run_id = world.start("onboard")
    told = world.get(f"/runs/{run_id}/explain").json
    assert told["why"].startswith("2/5 of its steps have ended; at work: ask. It waits at ask for approval since")
    assert [waker["what"] for waker in told["wakers"]] == ["call", "timer"]
    assert '"wait": "ask"' in told["wakers"][0]["detail"]
    assert (told["in_queue"], told["nothing_can_wake_it"]) == (False, False)


def test_the_graph_of_a_fork_says_where_it_forks_over_what_and_where_its_branches_meet(world: World) -> None:
    graph = world.get("/workflows/forked").json["graph"]
    nodes = {node["name"]: node for node in graph["nodes"]}
    assert (nodes["begin"]["forks_to"], nodes["gather"]["joins"]) == ("gather", "m_of_n")
    assert {(node["forks_to"], node["joins"]) for name, node in nodes.items() if name not in {"begin", "gather"}} == {
        (None, None)}  # fmt: skip
    assert [edge["foreach"] for edge in graph["edges"]] == ["{{ input.names }}", None, None, None, None, None]


def test_the_picture_of_a_fork_labels_its_lines_and_marks_its_join(world: World) -> None:
    run_id = world.post("/workflows/forked/runs", {"input": {"names": []}}).json["run_id"]
    drawn = world.get(f"/runs/{run_id}/graph", format="dot").text
    assert 'n0 -> n1 [label="foreach input.names"]' in drawn
    assert 'n0 -> n2 [label="has(input.audit)"]' in drawn
    assert "n0 -> n3\n" in drawn  # not the `otherwise` of the others: each that applies gets a branch
    assert 'label="begin\\nfork"' in drawn
    assert 'label="gather\\njoin 2 · python:m.total"' in drawn
