"""The history of a run with branches: everything that happened, by time, in pages, and of one branch alone."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest

from stepwell.engine.actions import Outcome
from stepwell.engine.records import Failure
from stepwell.errors import DefinitionError
from tests.api.kit import World, graph_of

DAG = """
workflow: onboard
steps:
  - {name: report, run: python:m.report, depends_on: [ask, flaky], timeout: 30s}
  - {name: flaky, run: python:m.flaky, timeout: 30s, retry: {max_retries: 1, initial_delay: 5s, on: [step]}}
  - {name: ask, wait: {for: approval}}
  - {name: broken, run: python:m.broken, timeout: 30s, on_failure: skip}
"""
FORKED = """
workflow: forked
nodes:
  begin: {transitions: [{to: score, foreach: "{{ input.names }}", as: name}]}
  score: {run: python:m.score, transitions: [{to: gather}]}
  gather: {fan_in: {policy: all}, transitions: [{to: ask}]}
  ask: {wait: {for: approval}}
"""
NESTED = """
workflow: nested
nodes:
  begin: {transitions: [{to: half, foreach: "{{ input.halves }}", as: half}]}
  half: {transitions: [{to: score, foreach: "{{ state.half }}", as: name}]}
  score: {run: python:m.score, transitions: [{to: inner}]}
  inner: {fan_in: {policy: all}, transitions: [{to: outer}]}
  outer: {fan_in: {policy: all}}
"""

ABANDONS = """
workflow: abandons
nodes:
  begin: {fan_out: all, transitions: [{to: quick}, {to: ask}]}
  quick: {sleep: 10s, transitions: [{to: gather}]}
  ask: {wait: {for: approval}, transitions: [{to: gather}]}
  gather: {fan_in: {policy: any, on_early_complete: abandon}, transitions: [{to: nap}]}
  nap: {sleep: 1m, transitions: [{to: again, max: 1}, {to: rest}]}
  again: {transitions: [{to: begin}]}
  rest: {sleep: 1h}
"""


@pytest.fixture
def world() -> World:
    made = World(DAG, FORKED, NESTED, ABANDONS)
    tries: list[str] = []

    def flaky(call: Any) -> Outcome:
        tries.append(call.node)
        return Outcome("ok") if len(tries) > 1 else Outcome(failure=Failure("Flaky", "step", "no luck", call.node))

    made.steps.functions["python:m.flaky"] = flaky
    made.steps.functions["python:m.broken"] = lambda call: Outcome(failure=Failure("Broken", "step", "no", call.node))
    for name in ("report", "score"):
        made.steps.functions[f"python:m.{name}"] = lambda call: Outcome(call.node)
    return made


def entries(world: World, run_id: str, **query: Any) -> list[dict[str, Any]]:
    """All pages."""
    found: list[dict[str, Any]] = []
    cursor = ""
    while cursor is not None:
        page = world.get(f"/runs/{run_id}/history", **query, **({"cursor": cursor} if cursor else {}))
        assert page.status == 200, page.json
        found, cursor = [*found, *page.json["items"]], page.json["next_cursor"]
    return found


def told(found: list[dict[str, Any]], step: str) -> list[str]:
    return [entry["type"] for entry in found if entry["step"] == step]


def onboarded(world: World) -> str:
    run_id = world.start("onboard")
    world.advance(10)
    assert world.post(f"/runs/{run_id}/approve", {"by": "kim"}).status == 200
    world.drain()
    return run_id


def test_the_history_of_a_dag_has_each_retry_approval_and_failure_of_its_steps(world: World) -> None:
    found = entries(world, onboarded(world))
    assert told(found, "flaky") == [
        "step.started", "step.failed", "step.retry_scheduled", "step.started", "step.completed", "branch.completed",
    ]  # fmt: skip
    assert told(found, "ask") == ["approval.requested", "approval.received", "step.completed", "branch.completed"]
    assert told(found, "broken") == ["step.started", "step.failed", "step.skipped", "branch.completed"]
    assert found[-1]["type"] == "run.completed"


def test_entries_are_in_the_order_of_time_and_a_step_never_comes_before_one_that_it_needs(world: World) -> None:
    found = entries(world, onboarded(world))
    assert [entry["at"] for entry in found] == sorted(entry["at"] for entry in found)
    steps = [entry["step"] for entry in found if entry["type"] == "step.completed"]
    assert steps.index("report") > max(steps.index("ask"), steps.index("flaky"))


@pytest.mark.parametrize("limit", [1, 2, 7])
def test_pages_of_any_size_make_up_the_same_history(world: World, limit: int) -> None:
    run_id = onboarded(world)
    assert entries(world, run_id, limit=limit) == entries(world, run_id)
    assert entries(world, run_id, limit=limit, phases="true") == entries(world, run_id, phases="true")


def test_the_branches_of_a_fork_stand_between_its_opening_and_its_join(world: World) -> None:
    run_id = world.start("forked", input={"names": ["ana", "leo"]})
    found = entries(world, run_id)
    types = [entry["type"] for entry in found]
    inside = found[types.index("fork.opened") + 1 : types.index("join.fired")]
    assert {entry["token"] for entry in inside} == {"0/0.0", "0/0.1"}
    assert types.count("branch.completed") == 2
    assert types[-1] == "approval.requested"


def test_what_follows_an_entry_of_a_branch_is_the_rest_of_the_branches_and_what_came_after_the_join(
    world: World,
) -> None:
    run_id = world.start("forked", input={"names": ["ana", "leo"]})
    whole = entries(world, run_id)
    for at, entry in enumerate(whole):
        assert entries(world, run_id, after=entry["id"]) == whole[at + 1 :]


def test_forks_in_branches_are_told_too(world: World) -> None:
    run_id = world.start("nested", input={"halves": [["ana", "leo"], ["eva"]]})
    found = entries(world, run_id)
    assert sorted(entry["token"] for entry in found if entry["type"] == "step.completed") == [
        "0/0.0/0.0", "0/0.0/0.1", "0/0.1/0.0",
    ]  # fmt: skip
    assert entries(world, run_id, limit=1) == found
    assert told(entries(world, run_id, token="0/0.1"), "score") == ["step.started", "step.completed"] * 1 + [
        "branch.completed"
    ]


def test_a_wide_fork_is_told_without_its_branches_each_of_which_has_its_own_history(world: World) -> None:
    run_id = world.start("forked", input={"names": [f"n{number}" for number in range(101)]})
    assert {entry["token"] for entry in entries(world, run_id)} == {"0"}
    found = entries(world, run_id, token="0/0.100")
    assert [entry["type"] for entry in found] == ["step.started", "step.completed", "branch.completed"]
    assert entries(world, run_id, token="0/0.100", limit=1) == found


@pytest.mark.parametrize(
    ("query", "status", "code"),
    [
        ({"token": "0/0.7"}, 404, "unknown_branch"),
        ({"token": "0/9.0"}, 404, "unknown_branch"),
        ({"token": "nonsense"}, 404, "unknown_branch"),
        ({"after": "0/0.7"}, 422, "bad_cursor"),
        ({"after": "0/0.0@0.0", "token": "0/0.1"}, 422, "bad_cursor"),
    ],
)
def test_a_branch_or_an_entry_that_is_not_there_is_refused(
    world: World, query: dict[str, str], status: int, code: str
) -> None:
    run_id = world.start("forked", input={"names": ["ana", "leo"]})
    page = world.get(f"/runs/{run_id}/history", **query)
    assert (page.status, page.json["code"]) == (status, code)


GIVEN = """
workflow: given
nodes:
  begin:
    run: python:m.begin
    input: {order: "{{ input.order }}", of: "{{ state }}"}
    transitions: [{to: score, foreach: "{{ [7, 8] }}", as: name}]
  score:
    run: python:m.score
    input: {name: "{{ state.name }}", first: "{{ state.begin }}"}
    transitions: [{to: gather}]
  gather:
    fan_in: {policy: all}
    run: python:m.total
    retry: {max_retries: 1, on: [step]}
    input: {all: "{{ state.gather }}"}
"""
GIVEN_DAG = """
workflow: given
steps:
  - {name: a, run: python:m.a, input: {order: "{{ input.order }}"}}
  - {name: b, run: python:m.b, depends_on: [a], input: {a: "{{ steps.a.output }}", state: "{{ state.a }}"}}
  - {name: plain, run: python:m.plain, depends_on: [b]}
"""


@pytest.mark.parametrize("limit", [1, 50])
def test_the_history_tells_what_each_attempt_of_a_step_was_called_with(limit: int) -> None:
    """As the definition's `input` says, from the state as it was: the same as the step got."""
    world, got = World(GIVEN), list[Any]()

    def step(call: Any) -> Outcome:
        got.append((call.node, call.input))
        is_first = [node for node, _ in got].count("total") == 1 and call.node == "gather"
        return Outcome(failure=Failure("Broken", "step", "no", call.node, 1)) if is_first else Outcome(call.node)

    world.steps.functions |= {f"python:m.{name}": step for name in ("begin", "score", "total")}
    run_id = world.start("given", input={"order": {"id": 5}})
    world.advance(10)
    started = [one for one in entries(world, run_id, limit=limit) if one["type"] == "step.started"]
    shown = [(one["step"], one["data"]["input"]) for one in started]
    assert sorted(shown, key=str) == sorted(got, key=str)
    assert ("score", {"name": 8, "first": "begin"}) in shown


def test_a_step_of_a_dag_tells_what_it_was_called_with_by_the_results_before_it() -> None:
    world = World(GIVEN_DAG)
    world.steps.functions |= {f"python:m.{name}": lambda call: Outcome(call.node) for name in ("a", "b", "plain")}
    run_id = world.start("given", input={"order": 5})
    started = {one["step"]: one["data"] for one in entries(world, run_id) if one["type"] == "step.started"}
    assert started == {
        "a": {"input": {"order": 5}}, "b": {"input": {"a": "a", "state": "a"}},
        "plain": None,  # without an `input` of its own: the run's, and the state
    }  # fmt: skip


def test_what_a_fork_of_a_run_keeps_is_told_without_the_input_that_it_did_not_have() -> None:
    world = World(
        "workflow: kept\ntimeline: [{name: a, run: python:m.a, INPUT}, {name: b, run: python:m.b, INPUT}]".replace(
            "INPUT", 'input: {order: "{{ input.order }}"}'
        )
    )
    world.steps.functions |= {f"python:m.{name}": lambda call: Outcome(call.node) for name in ("a", "b")}
    run_id = world.start("kept", input={"order": 5})
    again = world.post(f"/runs/{run_id}/fork", {"at": 1, "input": {"order": 6}}).json["run_id"]
    world.drain()
    started = [one["data"] for one in entries(world, again) if one["type"] == "step.started"]
    assert started == [None, {"input": {"order": 6}}]


def test_what_a_redriven_run_keeps_is_told_without_the_input_of_a_newer_definition() -> None:
    text = (
        "workflow: kept\ntimeline: [{name: a, run: python:m.a, input: {is: GIVEN}}, {name: b, run: python:m.b, "
        "input: {is: GIVEN}}]"
    )
    world = World(text.replace("GIVEN", "old"))
    world.steps.functions |= {
        "python:m.a": lambda call: Outcome(call.node),
        "python:m.b": lambda call: Outcome(failure=Failure("Broken", "step", "no", call.node, 1)),
    }
    run_id = world.start("kept")
    world.parts.catalog.replace([graph_of(text.replace("GIVEN", "new"))])
    world.steps.functions["python:m.b"] = lambda call: Outcome(call.node)
    again = world.post(f"/runs/{run_id}/redrive").json["run_id"]
    world.drain()
    started = [one["data"] for one in entries(world, again) if one["type"] == "step.started"]
    assert started == [None, {"input": {"is": "new"}}]


@pytest.mark.parametrize("is_newer", [True, False], ids=["newer", "lost"])
def test_a_run_whose_definition_cannot_be_read_is_told_without_inputs(
    is_newer: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World('workflow: lost\ntimeline: [{name: a, run: python:m.a, input: {order: "{{ input.order }}"}}]')
    world.steps.functions["python:m.a"] = lambda call: Outcome(call.node)
    run_id = world.start("lost", input={"order": 5})
    whole = entries(world, run_id)
    world.parts.catalog._versions.clear()
    if is_newer:  # during a deploy: the previous code cannot compile it
        monkeypatch.setattr(world.parts.catalog, "_compile", Mock(side_effect=DefinitionError("no key `new`")))
    else:
        world.store._definitions.clear()
    told = entries(world, run_id)
    assert [one["id"] for one in told] == [one["id"] for one in whole]
    assert [one["data"] for one in told if one["type"] == "step.started"] == [None]


def abandoned(world: World) -> str:
    """A run that has come to its last node, while two branches that no join needs still wait."""
    run_id = world.start("abandons")
    for seconds in (11, 61, 11, 61):
        world.advance(seconds)
    return run_id


def asking(found: list[dict[str, Any]]) -> list[str]:
    """The branches that asked for an approval, the last one first."""
    return sorted({entry["token"] for entry in found if entry["type"] == "approval.requested"}, reverse=True)


def test_what_an_abandoned_branch_does_stands_where_it_was_done_and_follows_what_is_known(world: World) -> None:
    run_id = abandoned(world)
    known = entries(world, run_id)
    assert [entry["type"] for entry in known].count("join.fired") == 2
    for branch in asking(known):
        world.advance(60)
        assert world.post(f"/runs/{run_id}/approve", {"wait": branch}).status == 200
        world.drain()
        since = entries(world, run_id, after=known[-1]["id"])
        assert [entry["type"] for entry in since] == ["approval.received", "step.completed", "branch.completed"]
        assert {entry["token"] for entry in since} == {branch}
        known = [*known, *since]
    world.advance(3_600)
    whole = entries(world, run_id)
    assert [entry["at"] for entry in whole] == sorted(entry["at"] for entry in whole)
    assert whole[: len(known)] == known
    assert whole[-1]["type"] == "run.completed"


@pytest.mark.parametrize("limit", [1, 2, 7])
def test_pages_of_a_run_with_abandoned_branches_make_up_the_same_history(world: World, limit: int) -> None:
    run_id = abandoned(world)
    world.advance(1)
    branch = asking(entries(world, run_id))[0]
    assert world.post(f"/runs/{run_id}/approve", {"wait": branch}).status == 200
    world.drain()
    whole = entries(world, run_id)
    assert whole[-1]["token"] == branch
    assert entries(world, run_id, limit=limit) == whole
    for at, entry in enumerate(whole):
        assert entries(world, run_id, after=entry["id"]) == whole[at + 1 :]
