"""Forks and their branches as the API shows them: paged, by index, with what each brought or waits for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from stepwell.api.runs import branches
from stepwell.engine.actions import Outcome
from stepwell.engine.records import Failure
from tests.api.kit import World

FORKED = """
workflow: forked
nodes:
  begin: {transitions: [{to: ask, foreach: "{{ input.names }}", as: name}]}
  ask: {wait: {for: approval}, transitions: [{to: score}]}
  score: {run: python:m.score, transitions: [{to: all_in}]}
  all_in: {fan_in: {policy: all, target: scores, on_branch_failure: collect}}
"""
TIMED = """
workflow: timed
nodes:
  begin: {transitions: [{to: ask, foreach: "{{ input.limits }}", as: limit}]}
  ask: {wait: {for: approval, timeout: "{{ state.limit }}"}, transitions: [{to: all_in}]}
  all_in: {fan_in: {policy: all}}
"""
COUNTED = """
workflow: counted
nodes:
  count: {run: python:m.count, transitions: [{to: ask, foreach: "{{ input.names }}", as: name}]}
  ask: {wait: {for: approval}, transitions: [{to: score}]}
  score: {run: python:m.score, transitions: [{to: all_in}]}
  all_in: {fan_in: {policy: all, on_branch_failure: collect}}
"""
LINED = FORKED.replace("workflow: forked", "workflow: lined").replace("as: name}", "as: name, max_concurrency: 1}")


@pytest.fixture
def forked() -> World:
    made = World(FORKED, TIMED, LINED, COUNTED)
    made.steps.functions["python:m.count"] = lambda call: Outcome(1)
    made.steps.functions["python:m.score"] = lambda call: (
        Outcome(failure=Failure("Broken", "step", "no luck")) if call.input["name"] == "eva" else Outcome(7)
    )
    return made


def test_a_forked_run_shows_its_fork_and_where_its_branches_are(forked: World) -> None:
    run_id = forked.start("forked", input={"names": ["ana", "leo"]})
    run = forked.get(f"/runs/{run_id}").json
    assert (run["status"], run["phase"]) == ("waiting", "waiting_at_fan_in")
    assert run["forked"] == {"id": "0/0", "node": "begin", "width": 2, "join": "all_in"}
    assert run["links"]["branches"] == f"/runs/{run_id}/branches"


def test_a_run_waits_when_all_its_branches_do_for_what_is_due_first(forked: World) -> None:
    run_id = forked.start("timed", input={"limits": ["3h", "1h", "2h"]})
    run = forked.get(f"/runs/{run_id}").json
    assert (run["status"], run["waiting_for"], run["current_steps"]) == ("waiting", "approval", ["ask"])
    assert run["waiting_until"] == forked.get(f"/runs/{run_id}/branches").json["items"][1]["waiting_until"]
    told = forked.get(f"/runs/{run_id}/explain").json
    assert "3 wait, first of them 0/0.1. It waits at ask for approval since" in told["why"]
    assert '"wait": "0/0.1"' in told["wakers"][0]["detail"]
    assert forked.get(f"/runs/{run_id}/graph", format="json").json["states"]["ask"] == "waiting"


def test_a_run_with_a_branch_that_does_not_wait_runs(forked: World) -> None:
    run_id = forked.start("forked", input={"names": ["ana", "leo"]})
    forked.steps.functions["python:m.score"] = lambda call: Outcome(failure=Failure("Away", "transient", "later"))
    forked.post(f"/runs/{run_id}/approve", {"wait": "0/0.0"})
    run = forked.get(f"/runs/{run_id}").json
    assert (run["status"], run["waiting_for"]) == ("running", None)


def test_a_branch_whose_turn_has_not_come_keeps_no_run_from_waiting(forked: World) -> None:
    run_id = forked.start("lined", input={"names": ["ana", "leo", "eva"]})
    assert forked.get(f"/runs/{run_id}").json["status"] == "waiting"


def test_a_fork_of_more_than_one_page_shows_the_wait_that_is_due_first(forked: World) -> None:
    run_id = forked.start("forked", input={"names": [f"n{number}" for number in range(101)]})
    run = forked.get(f"/runs/{run_id}").json
    assert (run["status"], run["waiting_for"], run["current_steps"]) == ("waiting", "approval", ["ask"])


def test_branches_of_a_status_are_found_page_by_page(forked: World) -> None:
    run_id = forked.start("forked", input={"names": ["eva" if n % 50 == 49 else f"n{n}" for n in range(151)]})
    for number in (0, 49, 99, 149):
        forked.post(f"/runs/{run_id}/approve", {"wait": f"0/0.{number}"})
    forked.drain()

    def asked(**query: Any) -> list[int]:
        found, cursor = [], ""
        while cursor is not None:
            page = forked.get(f"/runs/{run_id}/branches", **query, **({"cursor": cursor} if cursor else {})).json
            found += [one["index"] for one in page["items"]]
            cursor = page["next_cursor"]
        return found

    assert asked(status="failed") == asked(status="failed", limit=1) == [49, 99, 149]
    assert asked(status="failed,completed", limit=2) == [0, 49, 99, 149]
    assert len(asked(status="waiting")) == 147
    assert forked.get(f"/runs/{run_id}/branches", status="lost").status == 422


def test_a_page_of_a_status_ends_after_so_many_branches(forked: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(branches, "BRANCHES_LOOKED_AT", 100)
    run_id = forked.start("forked", input={"names": [f"n{number}" for number in range(150)]})
    page = forked.get(f"/runs/{run_id}/branches", status="failed").json
    assert page == {"items": [], "next_cursor": "100"}
    assert forked.get(f"/runs/{run_id}/branches", status="failed", cursor=100).json["next_cursor"] is None


def test_each_branch_says_what_it_waits_for_and_what_it_brought(forked: World) -> None:
    run_id = forked.start("forked", input={"names": ["ana", "eva", "leo"]})
    for index in (0, 1):
        assert forked.post(f"/runs/{run_id}/approve", {"wait": f"0/0.{index}", "by": "kim"}).status == 200
    forked.drain()
    first, second, third = forked.get(f"/runs/{run_id}/branches").json["items"]
    assert (first["id"], first["status"], first["item"], first["output"]["score"]) == ("0/0.0", "completed", "ana", 7)
    assert (second["status"], second["error"]["type"]) == ("failed", "Broken")
    assert (third["status"], third["waiting_for"], third["current_step"]) == ("waiting", "approval", "ask")


def test_the_attempts_of_branches_count_before_they_join(forked: World) -> None:
    """And do not count twice when they have."""
    run_id = forked.start("forked", input={"names": ["ana", "leo", "eva"]})
    seen = [forked.get(f"/runs/{run_id}").json["cost"]["steps"]]
    for index in range(3):
        forked.post(f"/runs/{run_id}/approve", {"wait": f"0/0.{index}"})
        forked.drain()
        seen.append(forked.get(f"/runs/{run_id}").json["cost"]["steps"])
    assert seen == [0, 1, 2, 3]
    assert forked.get(f"/runs/{run_id}").json["status"] == "completed"


def test_the_slot_of_an_open_fork_shows_no_branch_that_came_after_it(forked: World) -> None:
    """The run without a slot is the run as it is now."""
    run_id = forked.start("forked", input={"names": ["ana", "leo"]})
    names = ("status", "current_steps", "states")
    then, now = (forked.get(f"/runs/{run_id}/state", **asked).json for asked in ({"at": 0}, {}))
    assert [then[name] for name in names] == ["running", ["begin"], {"begin": "running"}]
    assert [now[name] for name in names] == ["waiting", ["ask"], {"ask": "waiting"}]


@pytest.mark.parametrize("width", [2, 250])
def test_a_step_that_opened_a_fork_has_ended_while_its_branches_run(forked: World, width: int) -> None:
    """The run stands there, where its fork has more branches than a page or they are not read."""
    reply = forked.post("/workflows/counted/runs", {"input": {"names": ["ana"] * width}})
    run_id = reply.json["run_id"]
    forked.turn()
    assert forked.get(f"/runs/{run_id}/state", at=0).json["states"] == {"count": "completed"}
    drawn = forked.get(f"/runs/{run_id}/graph", format="json").json
    assert (drawn["states"]["count"], drawn["steps"]["count"]["status"]) == ("completed", "completed")


def test_the_branches_of_a_wide_fork_come_page_by_page(forked: World) -> None:
    run_id = forked.start("forked", input={"names": [f"n{number}" for number in range(250)]})
    seen, cursor = [], "0"
    while cursor is not None:
        page = forked.get(f"/runs/{run_id}/branches", limit=90, cursor=cursor).json
        seen += [branch["index"] for branch in page["items"]]
        cursor = page["next_cursor"]
    assert seen == list(range(250))


def test_a_fork_that_has_joined_is_found_by_its_id(forked: World) -> None:
    run_id = forked.start("forked", input={"names": ["ana"]})
    forked.post(f"/runs/{run_id}/approve", {"wait": "0/0.0"})
    forked.drain()
    assert forked.get(f"/runs/{run_id}/branches").json["items"] == []
    (branch,) = forked.get(f"/runs/{run_id}/branches", fork="0/0").json["items"]
    assert branch["status"] == "completed"


@pytest.mark.parametrize("fork", ["0", "0/", "0/x", "1/2", "0/0.0", "../etc", "0/" + "9" * 12, "0/7", "0/0.9/1"])
def test_a_fork_that_is_not_there_is_not_found(forked: World, fork: str) -> None:
    run_id = forked.start("forked", input={"names": ["ana"]})
    assert forked.get(f"/runs/{run_id}/branches", fork=fork).status == 404


def test_an_approval_of_a_branch_that_is_not_there_is_refused(forked: World) -> None:
    run_id = forked.start("forked", input={"names": ["ana"]})
    assert forked.post(f"/runs/{run_id}/approve", {"wait": "0/0.5"}).status == 404


def reads(width: int) -> list[Counter[str]]:
    """What the store is asked for a run that stands at a fork of this width, and for a page of its branches."""
    world = World(FORKED)
    run_id = world.start("forked", input={"names": [f"n{number}" for number in range(width)]})
    found, asked = [], Counter[str]()
    for name in ("get_run", "load", "read_log", "read_logs", "read_join"):
        setattr(world.store, name, _counting(asked, name, getattr(world.store, name)))
    for path, query in (("", {}), ("/branches", {"limit": 50, "cursor": width - 60})):
        asked.clear()
        reply = world.get(f"/runs/{run_id}{path}", **query)
        assert reply.status == 200
        found.append(Counter(asked))
    assert len(reply.json["items"]) == 50
    return found


def _counting(asked: Counter[str], name: str, ask: Callable[..., Any]) -> Callable[..., Any]:
    def counted(*args: Any, **named: Any) -> Any:
        asked[name] += 1
        return ask(*args, **named)

    return counted


def test_a_page_of_a_wide_fork_takes_as_many_reads_as_one_of_a_narrow_fork() -> None:
    run, branches = reads(900)
    narrow, few = reads(600)
    assert branches == few
    assert branches.total() <= 5
    assert [run.pop("read_join"), narrow.pop("read_join")] == [1 + 9, 1 + 6]  # a set for each page under way
    assert run == narrow
    assert run.total() <= 5  # one of them is the page from which the run's cost is scaled


def test_a_run_with_a_fork_of_hundreds_reads_each_page_of_it_once() -> None:
    """So it can count each node and edge of its branches."""
    run, _ = reads(200)
    assert (run["read_logs"], run["read_join"]) == (2, 0)


def test_where_one_branch_waits_for_an_approval_nobody_need_name_it(forked: World) -> None:
    run_id = forked.start("forked", input={"names": ["ana", "leo"]})
    refused = forked.post(f"/runs/{run_id}/approve", {"by": "kim"})
    assert (refused.status, refused.json["code"]) == (409, "several_waits")
    assert "0/0.0, 0/0.1" in refused.json["hint"]
    assert forked.post(f"/runs/{run_id}/approve", {"by": "kim", "wait": "0/0.1"}).status == 200
    forked.drain()
    assert forked.post(f"/runs/{run_id}/approve", {"by": "kim"}).status == 200
    forked.drain()
    assert forked.get(f"/runs/{run_id}").json["status"] == "completed"


TWO = """
workflow: two
nodes:
  begin: {fan_out: all, transitions: [{to: boss}, {to: bank}]}
  boss: {wait: {for: approval}, transitions: [{to: all_in}]}
  bank: {wait: {for: approval}, transitions: [{to: all_in}]}
  all_in: {fan_in: {policy: all}}
"""


def test_an_approval_in_a_branch_goes_by_the_name_of_its_step() -> None:
    """As a run shows it, and as in a DAG."""
    world = World(TWO)
    run_id = world.start("two")
    assert world.post(f"/runs/{run_id}/approve", {"by": "kim", "wait": "cook"}).json["code"] == "not_waiting"
    assert world.post(f"/runs/{run_id}/approve", {"by": "kim", "wait": "bank"}).status == 200
    world.drain()
    assert world.get(f"/runs/{run_id}").json["current_steps"] == ["boss"]


def test_an_approval_that_several_branches_ask_for_at_one_step_is_named_by_its_branch(forked: World) -> None:
    run_id = forked.start("forked", input={"names": ["ana", "leo"]})
    refused = forked.post(f"/runs/{run_id}/approve", {"by": "kim", "wait": "ask"}).json
    assert (refused["code"], "0/0.0, 0/0.1" in refused["hint"]) == ("several_waits", True)


def test_an_approval_in_a_wide_fork_is_named_by_its_branch(forked: World) -> None:
    """An answer does not read hundreds of branches."""
    run_id = forked.start("forked", input={"names": ["ana"] * 101})
    for named in ({}, {"wait": "ask"}):
        refused = forked.post(f"/runs/{run_id}/approve", {"by": "kim", **named}).json
        assert (refused["code"], "/branches" in refused["hint"]) == ("several_waits", True)
    assert forked.post(f"/runs/{run_id}/approve", {"by": "kim", "wait": "0/0.100"}).status == 200
    forked.post(f"/runs/{run_id}/cancel", {"by": "kim"})
    assert forked.post(f"/runs/{run_id}/approve", {"by": "kim"}).json["code"] == "not_waiting"
