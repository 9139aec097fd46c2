"""Child runs as the API shows them: by the parent with their status, by the child with its parent."""

from __future__ import annotations

import pytest

from stepwell.api.runs import children
from stepwell.definition.graph import Json
from stepwell.engine.actions import Outcome
from stepwell.engine.children import child_id
from stepwell.engine.records import Failure
from stepwell.limits import CHILD_STATUSES
from tests.api.kit import World

ORDER = """
workflow: order
timeline:
  - {name: check, children: [{workflow: fraud}, {workflow: stock}]}
  - {name: tell, run: "workflow:mail", detached: true}
  - {name: ship, run: python:shop.ship}
"""
ONE = "workflow: one\ntimeline: [{name: ask, run: 'workflow:fraud'}]"
DAG = """
workflow: dag
steps:
  - {name: ask, children: [{workflow: fraud}]}
  - {name: other, wait: {for: approval}}
"""
FORKED = """
workflow: forked
nodes:
  begin: {transitions: [{to: ask, foreach: "{{ [1, 2] }}"}]}
  ask: {run: "workflow:fraud", transitions: [{to: all_in}]}
  all_in: {fan_in: {policy: all}}
"""
MANY = "workflow: many\ntimeline: [{name: ask, children: [" + ", ".join(["{workflow: mail}"] * 30) + "]}]"
ISOLATED = FORKED.replace("workflow: forked", "workflow: isolated").replace(
    'run: "workflow:fraud"', "children: [{workflow: stock}], on_failure: isolate"
)
FRAUD = "workflow: fraud\ntimeline: [{name: look, wait: {for: approval}}]"
STOCK = "workflow: stock\ntimeline: [{name: count, run: python:m.count}]"
MAIL = "workflow: mail\ntimeline: [{name: write, run: python:m.count}]"


@pytest.fixture
def world() -> World:
    made = World(ORDER, ONE, DAG, FORKED, ISOLATED, MANY, FRAUD, STOCK, MAIL)
    made.steps.functions["python:m.count"] = lambda call: Outcome(3)
    return made


def run_of(world: World, run_id: str, **query: str) -> dict[str, Json]:
    shown: dict[str, Json] = world.get(f"/runs/{run_id}", **query).json
    return shown


def test_a_parent_lists_its_children_with_their_status(world: World) -> None:
    run_id = world.start()
    run = run_of(world, run_id)
    assert (run["status"], run["phase"], run["waiting_for"]) == ("waiting", "waiting_for_children", "children")
    child = child_id(run_id, "0", 0, 0)
    fraud: dict[str, Json] = {"name": "fraud", "workflow": "fraud", "run_id": child, "step": "check",
             "status": "waiting", "detached": False, "links": {"self": f"/runs/{child}"}}  # fmt: skip
    assert run["children"][0] == fraud
    assert (run["children"][1]["name"], run["children"][1]["status"]) == ("stock", "completed")
    assert world.get(fraud["links"]["self"]).json["workflow"] == "fraud"


def test_a_child_names_its_parent_and_links_to_it(world: World) -> None:
    run_id = world.start()
    child = run_of(world, child_id(run_id, "0", 0, 0))
    assert (child["parent"], child["links"]["parent"]) == (run_id, f"/runs/{run_id}")
    listed = {one["workflow"]: one for one in world.get("/runs").json["items"]}
    assert (listed["stock"]["parent"], listed["stock"]["links"]["parent"]) == (run_id, f"/runs/{run_id}")
    assert (listed["order"]["parent"], listed["order"]["links"]) == (None, {"self": f"/runs/{run_id}"})


def test_a_detached_child_is_listed_too(world: World) -> None:
    run_id = world.start()
    world.post(f"/runs/{child_id(run_id, '0', 0, 0)}/approve")
    world.drain()
    run = run_of(world, run_id)
    assert run["status"] == "completed"
    assert [(one["name"], one["step"], one["status"], one["detached"]) for one in run["children"]] == [
        ("fraud", "check", "completed", False), ("stock", "check", "completed", False),
        ("tell", "tell", "completed", True)]  # fmt: skip
    assert run_of(world, run["children"][2]["run_id"])["parent"] == run_id


def test_a_dag_lists_the_children_of_its_steps(world: World) -> None:
    run = run_of(world, world.start("dag"))
    assert [(one["name"], one["step"], one["status"]) for one in run["children"]] == [("fraud", "ask", "waiting")]


def test_a_branch_lists_its_own_children(world: World) -> None:
    run_id = world.start("forked")
    branches = world.get(f"/runs/{run_id}/branches").json["items"]
    for index, branch in enumerate(branches):
        (child,) = branch["children"]
        assert (child["run_id"], child["status"]) == (child_id(run_id, f"0/0.{index}", 0, 0), "waiting")


def test_a_list_of_the_runs_that_one_started_has_the_detached_ones_and_takes_the_other_filters(world: World) -> None:
    run_id = world.start()
    assert world.post(f"/runs/{child_id(run_id, '0', 0, 0)}/approve", {"by": "kim"}).status == 200
    world.drain()
    listed = world.get("/runs", parent=run_id).json["items"]
    assert sorted(run["workflow"] for run in listed) == ["fraud", "mail", "stock"]
    assert {run["parent"] for run in listed} == {run_id}
    assert [run["workflow"] for run in world.get("/runs", parent=run_id, workflow="mail").json["items"]] == ["mail"]
    first = world.get("/runs", parent=run_id, limit=2).json
    rest = world.get("/runs", parent=run_id, limit=2, cursor=first["next_cursor"]).json
    assert [*first["items"], *rest["items"]] == listed
    assert rest["next_cursor"] is None


def test_the_children_of_branches_are_listed_too_and_those_of_no_run_are_refused(world: World) -> None:
    run_id = world.start("forked")
    assert len(world.get("/runs", parent=run_id).json["items"]) == 2
    assert world.get("/runs", parent="run_none").status == 404
    assert world.get("/runs", parent=run_id, cursor="run_none").status == 422


def test_a_run_lists_the_children_of_its_branches_while_they_run_and_after_their_join(world: World) -> None:
    run_id = world.start("forked")
    assert [(one["step"], one["status"]) for one in run_of(world, run_id)["children"]] == [("ask", "waiting")] * 2
    for one in run_of(world, run_id)["children"]:
        world.post(f"/runs/{one['run_id']}/approve")
    world.drain()
    run = run_of(world, run_id)
    assert run["status"] == "completed"
    assert [(one["step"], one["status"]) for one in run["children"]] == [("ask", "completed")] * 2


def test_a_child_whose_failure_its_branch_leaves_alone_is_listed_as_failed(world: World) -> None:
    world.steps.functions["python:m.count"] = lambda call: Outcome(failure=Failure("Broken", "step", "no luck", "a"))
    run = run_of(world, world.start("isolated"))
    assert (run["status"], run["steps"]["ask"]["branches"]) == ("completed", {"total": 2, "completed": 2})
    assert [one["status"] for one in run["children"]] == ["failed", "failed"]


def test_of_many_children_of_branches_a_bounded_number_is_listed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children, "OF_BRANCHES", 1)
    assert len(run_of(world, world.start("forked"))["children"]) == 1


def test_the_status_of_the_first_25_children_is_read(world: World) -> None:
    run_id = world.start("many")
    asked: list[str] = []
    get_run = world.store.get_run

    async def counted(run_id: str) -> object:
        asked.append(run_id)
        return await get_run(run_id)

    world.store.get_run = counted  # type: ignore[method-assign,assignment]  # counts what is read
    statuses = [one["status"] for one in run_of(world, run_id)["children"]]
    assert statuses == ["completed"] * CHILD_STATUSES + [None] * 5
    assert len([one for one in asked if one != run_id]) == CHILD_STATUSES


def test_a_child_that_could_not_be_started_has_no_status(world: World) -> None:
    world.parts.catalog.replace([graph for graph in world.parts.catalog.current.values() if graph.name != "fraud"])
    run = run_of(world, world.start("one"))
    assert (run["status"], run["error"]["type"], run["children"][0]["status"]) == ("failed", "unknown_workflow", None)


def test_what_a_wait_for_children_waits_for_is_explained(world: World) -> None:
    run_id = world.start()
    told = world.get(f"/runs/{run_id}/explain").json
    since = run_of(world, run_id)["steps"]["check"]["started_at"]
    assert told["why"].startswith(f"It waits at check for its 2 child runs, of which 1 has ended, since {since}")
    assert [(waker["what"], waker["detail"]) for waker in told["wakers"]] == [
        ("child", f"the end of fraud (run {child_id(run_id, '0', 0, 0)}, waiting)"),
        ("timer", "the wait times out then"),
    ]  # fmt: skip
    assert told["nothing_can_wake_it"] is False


@pytest.mark.parametrize(("words", "status"), [
    ("timeline", "waiting_for_subworkflows"), ("agent", "WAITING"), ("session", "Suspended"), ("dag", "executing"),
])  # fmt: skip
def test_a_wait_for_children_in_each_vocabulary(world: World, words: str, status: str) -> None:
    run = run_of(world, world.start(), **{"as": words})
    assert run["status"] == status
    assert run.get("waitingFor", "agent") == "agent"


def test_a_node_that_starts_children_is_drawn_as_one(world: World) -> None:
    run_id = world.start()
    graph = world.get(f"/runs/{run_id}/graph", format="json").json
    nodes = {node["name"]: node for node in graph["nodes"]}
    assert (nodes["check"]["kind"], nodes["check"]["calls"]) == ("call", ["fraud", "stock"])
    assert (nodes["tell"]["kind"], nodes["tell"]["calls"]) == ("call", ["mail"])
    assert graph["states"] == {"check": "waiting"}
    drawn = world.get(f"/runs/{run_id}/graph", format="dot").text
    assert 'label="◔ check\\n2 child runs: fraud, stock"' in drawn
    assert 'label="tell\\nworkflow: mail, detached"' in drawn
    drawn = world.get(f"/runs/{run_id}/graph", format="mermaid").text
    assert 'n1[["tell<br/>workflow#58; mail, detached"]]' in drawn
