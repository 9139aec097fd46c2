"""Forks and joins from end to end: branches, what they see and bring, policies, merges, failures, cancels."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell.definition.graph import Json
from stepwell.engine.records import Fork, Kind, Status
from stepwell.errors import Conflict, NotFound, PortError
from stepwell.limits import DAY_MS, FORK_WIDTH
from stepwell.runtime.log.messages import Wake, to_json
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.ports import Lane
from tests.runtime.kit import World, fails

MAP = """
workflow: flow
nodes:
  fetch: {run: python:m.fetch, transitions: [{to: score, foreach: "{{ input }}"OPTIONS}]}
  score: {run: python:m.score, output: {score: "{{ result }}"}, transitions: [{to: gather}]}
  gather: {fan_in: {target: found, FAN_IN}, run: python:m.total, transitions: [{to: done}]}
  done: {}
"""


def mapping(fan_in: str = "policy: all", options: str = "") -> str:
    return MAP.replace("FAN_IN", fan_in).replace("OPTIONS", options)


def run_map(items: Json, fan_in: str = "policy: all", options: str = "", **steps: Any) -> tuple[World, str]:
    world = World(mapping(fan_in, options))
    world.steps.of["score"] = lambda call: call.input["item"]
    world.steps.of.update(steps)
    run_id = world.start(given=items)
    world.deliver()
    return world, run_id


def scores(world: World, run_id: str) -> Json:
    """What the join wrote into the state."""
    return world.token(run_id).scope["found"]


def unless(*bad: int) -> Any:
    return lambda call: fails() if call.input["item"] in bad else call.input["item"]


def test_a_list_makes_a_branch_for_each_item_and_the_join_gets_them_in_order() -> None:
    world, run_id = run_map([3, 1, 2])
    assert world.header(run_id).status is Status.COMPLETED
    assert scores(world, run_id) == [{"score": 3}, {"score": 1}, {"score": 2}]


def test_an_object_makes_a_branch_for_each_key() -> None:
    world, run_id = run_map({"a": 1, "b": 2})
    assert scores(world, run_id) == [{"score": {"key": "a", "value": 1}}, {"score": {"key": "b", "value": 2}}]


@pytest.mark.parametrize("lists", [([1], [1, 2, 3]), ([1, 2, 3], [1])])
def test_a_step_that_forks_over_its_own_output_takes_that_of_this_visit(lists: tuple[list[int], ...]) -> None:
    text = """
    workflow: flow
    nodes:
      fetch:
        run: python:m.fetch
        transitions:
          - {to: fetch, when: "steps.fetch.output == input", max: 1, priority: 1}
          - {to: score, foreach: "{{ steps.fetch.output }}", priority: 2}
      score: {run: python:m.score, output: {score: "{{ result }}"}, transitions: [{to: gather}]}
      gather: {fan_in: {target: found}}
    """
    world, left = World(text), list(lists)
    world.steps.of.update(fetch=lambda call: left.pop(0), score=lambda call: call.input["item"])
    run_id = world.start(given=lists[0])
    world.deliver()
    assert scores(world, run_id) == [{"score": item} for item in lists[1]]


@pytest.mark.parametrize("keys", [
    "on_failure: skip, transitions: [{to: gather}]",
    "transitions: [{to: gather, when: \"error.category == 'step'\"}, {to: gather}]",
])  # fmt: skip
def test_a_branch_whose_last_error_is_handled_brings_its_output_to_the_join(keys: str) -> None:
    text = f"""
    workflow: flow
    nodes:
      begin: {{transitions: [{{to: score, foreach: "{{{{ input }}}}"}}]}}
      score: {{run: python:m.score, output: {{score: "{{{{ result }}}}"}}, transitions: [{{to: tell}}]}}
      tell: {{run: python:m.tell, {keys}}}
      gather: {{fan_in: {{target: found}}}}
    """
    world = World(text)
    world.steps.of.update(score=lambda call: call.input["item"], tell=lambda call: fails())
    run_id = world.start(given=[1, 2])
    world.deliver()
    assert scores(world, run_id) == [{"score": 1}, {"score": 2}]


@pytest.mark.parametrize("nothing", [[], {}])
def test_no_items_fire_the_join_at_once(nothing: Json) -> None:
    world, run_id = run_map(nothing)
    assert scores(world, run_id) == []
    assert world.header(run_id).status is Status.COMPLETED


def test_what_is_no_collection_fails_the_run_by_name() -> None:
    world, run_id = run_map("many")
    end = world.token(run_id).end
    assert end is not None
    assert end.error is not None
    assert (end.error.category, end.status) == ("validation", Status.FAILED)
    assert "gave str, not a list or an object" in end.error.message


def test_a_fork_that_is_too_wide_is_refused_before_a_branch_begins() -> None:
    world, run_id = run_map(list(range(FORK_WIDTH + 1)))
    end = world.token(run_id).end
    assert end is not None
    assert end.error is not None
    assert end.error.type == "fork_too_wide"
    assert [call.node for call in world.steps.calls] == ["fetch"]


def test_each_branch_knows_its_place_and_reads_what_its_parent_wrote() -> None:
    seen = []
    run_map(["x", "y"], score=lambda call: seen.append(call.state) or 0)
    assert [state["_branch"] for state in seen] == [
        {"index": 0, "total": 2, "fork": "fetch", "item": "x", "output": {}},
        {"index": 1, "total": 2, "fork": "fetch", "item": "y", "output": {}},
    ]
    assert all(state["fetch"] == "fetch" for state in seen)


def test_after_the_join_nothing_of_a_branch_is_left() -> None:
    world, run_id = run_map([1])
    assert set(world.token(run_id).scope) == {"fetch", "found", "gather"}


def test_a_branch_is_known_by_the_name_that_the_fork_gives_its_item() -> None:
    seen = []
    run_map([5], options=", as: price", score=lambda call: seen.append((call.input["price"], call.state["price"])))
    assert seen == [(5, 5)]


@pytest.mark.parametrize(
    ("merge", "merged"),
    [
        ("append", [{"score": {"a": 1}}, {"score": {"a": 2, "b": 3}}]),
        ("merge_object", {"score": {"a": 2, "b": 3}}),
        ("keyed_by_branch", {"0": {"score": {"a": 1}}, "1": {"score": {"a": 2, "b": 3}}}),
        ("last_wins", {"score": {"a": 2, "b": 3}}),
    ],
)
def test_the_merges(merge: str, merged: Json) -> None:
    world, run_id = run_map([{"a": 1}, {"a": 2, "b": 3}], f"policy: all, merge: {merge}")
    assert scores(world, run_id) == merged


def test_the_merged_outputs_are_the_result_that_the_join_s_own_step_sees() -> None:
    seen = []
    run_map([1, 2], gather=lambda call: seen.append(call.state["found"]))
    assert seen == [[{"score": 1}, {"score": 2}]]


def test_a_failed_branch_fails_the_join_and_says_which() -> None:
    world, run_id = run_map([1, 2, 3], score=unless(2))
    end = world.token(run_id).end
    assert end is not None
    assert end.error is not None
    assert (end.status, end.error.type, end.error.data["branch"]) == (Status.FAILED, "Broken", 1)
    assert end.error.message == "branch 1: no luck"


def test_a_join_that_fails_tells_of_the_first_branch_how_many_failed_and_how_many_may() -> None:
    world, run_id = run_map([1, 2, 3, 2], "policy: all, tolerate: {count: 1}", score=unless(2))
    end = world.token(run_id).end
    assert end is not None
    assert end.error is not None
    assert (end.error.message, end.error.data["failed"]) == ("branch 1: no luck; 2 of 4 branches failed, and 1 may", 2)


def test_a_failed_branch_ends_the_branches_that_still_run() -> None:
    text = mapping().replace(
        "output: {score: \"{{ result }}\"}, transitions: [{to: gather}]}",
        "transitions: [{to: hold, when: \"branch.index != 1\"}, {to: gather}]}\n"
        "  hold: {wait: {for: approval}, transitions: [{to: gather}]}",
    )  # fmt: skip
    world = World(text)
    world.steps.of["score"] = unless(2)
    run_id = world.start(given=[1, 2, 3])
    world.deliver()
    assert world.header(run_id).status is Status.FAILED
    ends = [branch(world, run_id, f"0/0.{index}").end for index in range(3)]
    assert [end.status for end in ends if end] == [Status.CANCELLED, Status.FAILED, Status.CANCELLED]


@pytest.mark.parametrize("tolerate", ["tolerate: {count: 1}", "tolerate: {percent: 34}"])
def test_so_many_failures_as_are_tolerated_do_not_matter(tolerate: str) -> None:
    world, run_id = run_map([1, 2, 3], f"policy: all, {tolerate}", score=unless(2))
    assert scores(world, run_id) == [{"score": 1}, {"score": 3}]
    world, run_id = run_map([1, 2, 3], f"policy: all, {tolerate}", score=unless(2, 3))
    assert world.header(run_id).status is Status.FAILED


def test_collected_errors_stand_among_the_outputs() -> None:
    world, run_id = run_map([1, 2], "policy: all, on_branch_failure: collect", score=unless(1))
    error, output = scores(world, run_id)
    assert (error["error"]["type"], error["error"]["branch"]) == ("Broken", 0)
    assert output == {"score": 2}


def test_any_goes_on_with_the_first_and_ends_the_rest() -> None:
    world, run_id = run_map([1, 2, 3], "policy: any")
    assert scores(world, run_id) == [{"score": 1}]
    assert world.header(run_id).status is Status.COMPLETED
    assert [call.node for call in world.steps.calls].count("gather") == 1


def test_m_of_n_waits_for_so_many() -> None:
    fan_in = "policy: {m_of_n: 2}, tolerate: {count: 1}, on_early_complete: abandon"
    world, run_id = run_map([1, 2, 3, 4], fan_in, score=unless(1))
    assert scores(world, run_id) == [{"score": 2}, {"score": 3}]


def test_m_of_n_that_cannot_be_met_any_more_fails() -> None:
    world, run_id = run_map([1, 2], "policy: {m_of_n: 2}, tolerate: {count: 1}", score=unless(1))
    end = world.token(run_id).end
    assert end is not None
    assert end.error is not None
    assert end.error.type == "join_unmet"


def test_no_more_branches_run_at_once_than_the_fork_allows() -> None:
    text = mapping(options=", max_concurrency: 2").replace(
        "run: python:m.score, output: {score: \"{{ result }}\"}", "wait: {for: approval}"
    )  # fmt: skip
    world = World(text)
    run_id = world.start(given=[1, 2, 3, 4, 5])
    world.deliver()
    assert waiting(world, run_id, 5) == [0, 1]
    approve(world, run_id, 1)
    assert waiting(world, run_id, 5) == [0, 2]
    approve(world, run_id, 0)
    assert waiting(world, run_id, 5) == [2, 3]
    for index in (2, 3, 4):
        approve(world, run_id, index)
    assert world.header(run_id).status is Status.COMPLETED


def test_all_rules_that_match_make_branches_and_no_other() -> None:
    world = World(TWO_WAYS)
    world.steps.of["start"] = lambda _: 7
    run_id = world.start()
    world.deliver()
    assert world.token(run_id).scope["meet"] == [{"small": "small"}, {"odd": "odd"}]
    assert {call.node for call in world.steps.calls} == {"start", "small", "odd"}


TWO_WAYS = """
workflow: flow
nodes:
  start: {run: python:m.s, fan_out: all, transitions: [
    {to: small, when: "result < 10"}, {to: large, when: "result >= 10"}, {to: odd, when: "result % 2 == 1"}]}
  small: {run: python:m.a, transitions: [{to: meet}]}
  large: {run: python:m.b, transitions: [{to: meet}]}
  odd: {run: python:m.c, transitions: [{to: meet}]}
  meet: {fan_in: {policy: all}}
"""


def test_forks_nest_and_the_inner_join_is_the_outer_branchs_output() -> None:
    world = World(NESTED)
    world.steps.of["cell"] = lambda call: call.input["cell"] * call.input["row"]["factor"]
    run_id = world.start(
        given=[{"factor": 2, "cells": [1, 2]}, {"factor": 10, "cells": []}, {"factor": 3, "cells": [5]}]
    )
    world.deliver()
    assert world.token(run_id).scope["table"] == [
        {"line": [{"cell": 2}, {"cell": 4}]}, {"line": []}, {"line": [{"cell": 15}]}]  # fmt: skip


NESTED = """
workflow: flow
nodes:
  rows: {transitions: [{to: row, foreach: "{{ input }}", as: row}]}
  row: {transitions: [{to: cell, foreach: "{{ state.row.cells }}", as: cell}]}
  cell: {run: python:m.cell, transitions: [{to: line}]}
  line: {fan_in: {policy: all}, transitions: [{to: table}]}
  table: {fan_in: {policy: all}}
"""


def test_without_a_join_the_run_ends_when_all_branches_have() -> None:
    world = World(NO_JOIN)
    run_id = world.start(given=[1, 2, 3])
    assert world.header(run_id).status is Status.PENDING
    world.deliver()
    assert world.header(run_id).status is Status.COMPLETED
    assert [call.node for call in world.steps.calls] == ["work"] * 3


NO_JOIN = """
workflow: flow
nodes:
  begin: {transitions: [{to: work, foreach: "{{ input }}"}]}
  work: {run: python:m.w}
"""


def test_a_branch_that_ends_before_the_join_has_arrived_without_output() -> None:
    text = mapping().replace(
        "transitions: [{to: gather}]", 'transitions: [{to: end, when: "result == 2"}, {to: gather}]'
    )
    world = World(text)
    world.steps.of["score"] = lambda call: call.input["item"]
    run_id = world.start(given=[1, 2, 3])
    world.deliver()
    assert scores(world, run_id) == [{"score": 1}, {"score": 3}]


def test_events_timers_and_sleeps_work_inside_a_branch() -> None:
    text = mapping().replace(
        "run: python:m.score, output: {score: \"{{ result }}\"}",
        "wait: {for: event, name: paid, key: \"{{ item }}\", timeout: 2d, on_timeout: continue}",
    ).replace("{{ item }}", "{{ branch.item }}")  # fmt: skip
    world = World(text)
    run_id = world.start(given=["a", "b"])
    world.deliver()
    run_now(world.service.send_event("paid", {"amount": 5}, key="b"))
    world.deliver()
    assert world.header(run_id).status is Status.WAITING
    world.pass_time(2 * DAY_MS)
    assert scores(world, run_id) == [{}, {"score": {"amount": 5}}]


def test_a_cancel_ends_every_branch_those_that_have_not_begun_too() -> None:
    world = World(mapping())
    run_id = world.start(given=[1, 2, 3])
    handle_one(world)  # the run forks; its branches' messages lie in the queue
    last = world.token(run_id).last
    assert last is not None
    assert isinstance(last.next, Fork)
    assert run_now(world.service.cancel(run_id, "enough", "kim"))
    world.deliver()
    assert [call.node for call in world.steps.calls] == ["fetch"]
    assert [branch(world, run_id, f"0/0.{index}").end.status for index in range(3)] == [Status.CANCELLED] * 3


def test_a_loop_through_a_fork_joins_anew_each_time() -> None:
    world = World(LOOP)
    world.steps.of["gather"] = lambda call: len(world.steps.calls)
    run_id = world.start(given=[1, 2])
    world.deliver()
    token = world.token(run_id)
    assert token.end is not None
    assert token.end.status is Status.COMPLETED
    assert [call.node for call in world.steps.calls].count("work") == 6


LOOP = """
workflow: flow
nodes:
  begin: {transitions: [{to: work, foreach: "{{ input }}"}]}
  work: {run: python:m.w, transitions: [{to: gather}]}
  gather: {fan_in: {policy: all}, run: python:m.g, transitions: [{to: begin, max: 2}, {to: end}]}
"""


@pytest.mark.parametrize("items", [7, 250])
def test_every_message_delivered_twice_joins_once(items: int) -> None:
    world = World(mapping())
    world.steps.of["score"] = lambda call: call.input["item"]
    run_id = world.start(given=list(range(items)))
    twice(world)
    assert scores(world, run_id) == [{"score": number} for number in range(items)]
    token = world.token(run_id)
    assert token.end is not None
    assert token.end.status is Status.COMPLETED
    records = run_now(world.service.records(run_id, -1, 100))
    assert [record.kind for record in records].count(Kind.JOINED) == 1


def test_a_worker_that_dies_before_its_arrival_is_replaced_by_the_redelivery() -> None:
    world = World(mapping())
    world.steps.of["score"] = lambda call: call.input["item"]
    run_id = world.start(given=[1, 2])
    handle_one(world)
    world.store.before["arrive"] = dies
    one = world.queue.receive((Lane.WORK,), world.clock.now_ms(), 0)
    assert one is not None
    with pytest.raises(PortError):
        handle(world, one.message)
    world.deliver()
    assert scores(world, run_id) == [{"score": 1}, {"score": 2}]


def test_the_sweeper_wakes_a_join_whose_last_arrival_was_lost() -> None:
    world = World(mapping())
    world.steps.of["score"] = lambda call: call.input["item"]
    run_id = world.start(given=[1])
    handle_one(world)
    world.store.before["arrive"] = dies
    with pytest.raises(PortError):
        world.deliver()
    world.lose_messages()
    world.clock.advance(DAY_MS)
    run_now(world.sweeper.sweep(60_000))
    world.deliver()
    assert world.header(run_id).status is Status.COMPLETED


def test_what_the_branches_cost_is_the_runs_cost() -> None:
    world, run_id = run_map([1, 2, 3])
    assert world.token(run_id).calls == len(world.steps.calls) == 5


def test_a_branch_that_is_not_there_cannot_be_answered() -> None:
    world, run_id = run_map([1])
    for place in ("0/0.7", "0/9.0", "0/0.0/3.1"):
        with pytest.raises((NotFound, Conflict)):
            run_now(world.service.approve(run_id, wait=place))


def branch(world: World, run_id: str, token: str) -> Any:
    at = run_now(world.parts.coordinator._logbook.load(run_id, token))
    assert at is not None
    return at.token


def waiting(world: World, run_id: str, width: int) -> list[int]:
    """Which branches are parked."""
    return [
        index
        for index in range(width)
        if (found := branch(world, run_id, f"0/0.{index}")).parked and not found.resumption
    ]


def approve(world: World, run_id: str, index: int) -> None:
    run_now(world.service.approve(run_id, by_whom(index), wait=f"0/0.{index}"))
    world.deliver()


def by_whom(index: int) -> Json:
    return {"branch": index}


def handle(world: World, body: Any) -> None:
    from stepwell.runtime.dispatch import dispatch  # noqa: PLC0415
    from stepwell.runtime.log.door import Unlimited  # noqa: PLC0415

    run_now(dispatch(world.parts, Lane.WORK, body, Unlimited()))


def handle_one(world: World) -> None:
    one = world.queue.receive((Lane.WORK,), world.clock.now_ms(), 60_000)
    assert one is not None
    handle(world, one.message)
    world.queue.delete(one)


def twice(world: World) -> None:
    """Each message is handled, and comes again."""
    while (one := world.queue.receive((Lane.WORK, Lane.RESUME), world.clock.now_ms(), 60_000)) is not None:
        handle(world, one.message)
        handle(world, one.message)
        world.queue.delete(one)


def dies(*_: object) -> None:
    raise PortError("the worker died here")


def test_a_message_about_several_branches_names_them() -> None:
    wake = Wake("r", -1, "0/3.20", count=3)
    assert wake.tokens == ("0/3.20", "0/3.21", "0/3.22")
    assert to_json(wake)["count"] == 3


def test_an_event_for_the_run_alone_reaches_the_branch_that_waits_for_it() -> None:
    text = mapping().replace('run: python:m.score, output: {score: "{{ result }}"}', "wait: {for: event, name: go}")
    world = World(text)
    run_id = world.start(given=[1, 2])
    world.deliver()
    for _ in range(2):
        run_now(world.service.send_event("go", 5, run_id=run_id))
        world.deliver()
    assert scores(world, run_id) == [{"score": 5}, {"score": 5}]


def test_branches_whose_steps_take_long_do_not_wait_for_each_other() -> None:
    world = World(mapping())
    world.steps.of["score"] = lambda call: world.clock.advance(1_000) or call.input["item"]
    run_id = world.start(given=[1, 2, 3, 4])
    handle_one(world)
    handle_one(world)
    assert [call.node for call in world.steps.calls].count("score") == 1
    assert world.queue.pending() == 3
    world.deliver()
    assert scores(world, run_id) == [{"score": n} for n in (1, 2, 3, 4)]
    assert [call.node for call in world.steps.calls].count("score") == 4


def test_the_sweeper_lets_no_branch_begin_before_its_turn() -> None:
    text = mapping(options=", max_concurrency: 2").replace(
        'run: python:m.score, output: {score: "{{ result }}"}', "wait: {for: approval, timeout: 30d}"
    )
    world = World(text)
    run_id = world.start(given=[1, 2, 3, 4, 5])
    world.deliver()
    world.pass_time(9 * DAY_MS)
    assert run_now(world.sweeper.sweep(60_000)) == ()
    world.deliver()
    assert waiting(world, run_id, 5) == [0, 1]


@pytest.mark.parametrize("read", ["state.score", "steps.score.output"])
def test_what_a_branch_wrote_under_its_own_names_is_not_there_after_the_join(read: str) -> None:
    """`stepwell check` warns of it."""
    world = World(mapping().replace("run: python:m.total", f'run: python:m.total, input: "{{{{ {read} }}}}"'))
    world.steps.of["score"] = lambda call: call.input["item"]
    run_id = world.start(given=[1, 2])
    world.deliver()
    assert world.header(run_id).status is Status.FAILED
