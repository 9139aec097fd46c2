"""What a run's header says while its branches wait, and what that costs."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest

from stepwell.api.runs.views import read_run
from stepwell.engine.copying import changed
from stepwell.engine.forks.marks import is_waiting
from stepwell.engine.records import Status
from stepwell.errors import LeaseLost
from stepwell.runtime.forks.showing import Showing
from stepwell.runtime.log.standing import Standing
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.ports.headers import RunQuery, StatusChange
from tests.runtime.kit import World, fails

HOUR_MS, MINUTE_MS = 3_600_000, 60_000
ASKS = """
workflow: flow
nodes:
  begin: {transitions: [{to: ask, foreach: "{{ input }}", as: limit}]}
  ask: {wait: {for: approval, timeout: "{{ state.limit }}", on_timeout: continue}, transitions: [{to: work}]}
  work: {run: python:m.work, transitions: [{to: gather}]}
  gather: {fan_in: {policy: all}, transitions: [{to: after}]}
  after: {run: python:m.after}
"""
RULES = """
workflow: flow
nodes:
  begin:
    fan_out: all
    transitions:
      - {to: ask, foreach: "{{ input }}", as: limit, max_concurrency: 3}
      - {to: ask, foreach: "{{ input }}", as: limit}
  ask: {wait: {for: approval, timeout: "{{ state.limit }}", on_timeout: continue}, transitions: [{to: work}]}
  work: {run: python:m.work, transitions: [{to: gather}]}
  gather: {fan_in: {policy: all}, transitions: [{to: after}]}
  after: {run: python:m.after}
"""
ALONE = """
workflow: flow
nodes:
  begin:
    fan_out: all
    transitions:
      - {to: ask, foreach: "{{ input }}", as: limit, max_concurrency: 3}
      - {to: work}
  ask: {wait: {for: approval, timeout: "{{ state.limit }}"}, transitions: [{to: gather}]}
  work: {run: python:m.work, retry: {max_retries: 1, initial_delay: 1m}, transitions: [{to: gather}]}
  gather: {fan_in: {policy: all}}
"""
DAG = """
workflow: flow
steps:
  - {name: ask, wait: {for: approval}}
  - {name: work, run: python:m.work}
  - {name: later, run: python:m.later, depends_on: [ask]}
"""
NESTED = """
workflow: flow
nodes:
  begin: {transitions: [{to: half, foreach: "{{ input }}"}]}
  half: {transitions: [{to: ask, foreach: "{{ [1, 2] }}"}]}
  ask: {wait: {for: approval}, transitions: [{to: work}]}
  work: {run: python:m.work, transitions: [{to: inner}]}
  inner: {fan_in: {policy: all}, transitions: [{to: outer}]}
  outer: {fan_in: {policy: all}}
"""
WIDE = """
workflow: flow
nodes:
  begin: {transitions: [{to: choose, RULE}]}
  choose:
    transitions:
      - {to: outer, when: "state.limit == 'end'", priority: 1}
      - {to: half, when: "state.limit == 'fork'", priority: 2}
      - {to: ask, priority: 3}
  half: {transitions: [{to: inside, foreach: "{{ [1, 2] }}"}]}
  inside: {wait: {for: approval, timeout: 1h}, transitions: [{to: hurry}]}
  hurry: {run: python:m.work, transitions: [{to: inner}]}
  inner: {fan_in: {policy: all}, transitions: [{to: outer}]}
  ask: {wait: {for: approval, timeout: "{{ state.limit }}"}, transitions: [{to: work}]}
  work: {run: python:m.work, transitions: [{to: outer}]}
  outer: {fan_in: {policy: all}}
"""
MIXED = """
workflow: flow
nodes:
  begin: {fan_out: all, transitions: [{to: nap}, {to: half}]}
  nap: {sleep: 30m, transitions: [{to: outer}]}
  half: {transitions: [{to: ask, foreach: "{{ [1, 2] }}"}]}
  ask: {wait: {for: approval, timeout: 2h}, transitions: [{to: inner}]}
  inner: {fan_in: {policy: all}, transitions: [{to: outer}]}
  outer: {fan_in: {policy: all}}
"""
FIRST = """
workflow: flow
nodes:
  begin: {fan_out: all, transitions: [{to: ask}, {to: work}]}
  ask: {wait: {for: approval}, transitions: [{to: gather}]}
  work: {run: python:m.work, transitions: [{to: gather}]}
  gather: {fan_in: {policy: any}}
"""
AFTER = """
workflow: flow
steps:
  - {name: first, run: python:m.work}
  - {name: ask, wait: {for: approval}, depends_on: [first]}
"""
BESIDE = """
workflow: flow
steps:
  - {name: nap, sleep: 1h}
  - {name: ask, wait: {for: approval}}
"""


def shown(world: World, run_id: str) -> tuple[Status, str, str, int | None]:
    header = world.header(run_id)
    until_ms = header.waiting_until_ms
    left_ms = None if until_ms is None else until_ms - header.waiting_since_ms
    return header.status, header.waiting_for, header.waiting_node, left_ms


def started(text: str, given: Any = None) -> tuple[World, str]:
    world = World(text)
    run_id = world.start(given=given)
    world.deliver()
    return world, run_id


def showing(world: World) -> Showing:
    return world.parts.coordinator._performer.forking.showing


def branch(world: World, run_id: str, token: str) -> Standing:
    found = run_now(world.parts.coordinator._logbook.load(run_id, token))
    assert found is not None
    return found


def waiting_branches(world: World, run_id: str) -> list[str]:
    found = run_now(world.service.branches(run_id, "", 0, 10_000))
    return [one.token.id for one in found if is_waiting(one.token)]


def approve(world: World, run_id: str, wait: str) -> None:
    run_now(world.service.approve(run_id, wait=wait))
    world.deliver()


def test_a_run_whose_branches_all_wait_is_listed_as_waiting_for_what_is_due_first() -> None:
    world, run_id = started(ASKS, ["3h", "1h", "2h"])
    assert shown(world, run_id) == (Status.WAITING, "approval", "ask", HOUR_MS)
    page = run_now(
        world.service.runs(RunQuery(statuses=frozenset({Status.WAITING}), waiting_for=frozenset({"approval"})))
    )
    assert [header.run_id for header in page.headers] == [run_id]


def test_a_branch_that_goes_on_makes_the_run_running_and_its_end_makes_it_waiting_again() -> None:
    world, run_id = started(ASKS, ["3h", "1h", "2h"])
    seen: list[Status] = []
    world.steps.of["work"] = lambda _: seen.append(world.header(run_id).status)
    approve(world, run_id, "0/0.1")
    assert seen == [Status.RUNNING]
    assert shown(world, run_id) == (Status.WAITING, "approval", "ask", 2 * HOUR_MS)


def test_a_join_leaves_nothing_of_its_branches_waits_behind() -> None:
    world, run_id = started(ASKS, ["3h", "1h"])
    seen: list[Status] = []
    world.steps.of["after"] = lambda _: seen.append(world.header(run_id).status)
    for branch in (0, 1):
        approve(world, run_id, f"0/0.{branch}")
    assert seen == [Status.RUNNING]
    assert world.header(run_id).status is Status.COMPLETED


def test_an_approval_in_a_dag_is_listed_once_nothing_else_runs() -> None:
    world = World(DAG)
    seen: list[Status] = []
    world.steps.of["work"] = lambda _: seen.append(world.header(run_id).status)
    run_id = world.start()
    world.deliver()
    assert seen == [Status.RUNNING]
    assert shown(world, run_id)[:3] == (Status.WAITING, "approval", "ask")
    approve(world, run_id, "ask")
    assert world.header(run_id).status is Status.COMPLETED


@pytest.mark.parametrize("width", [101, 250])
def test_a_fork_of_several_pages_is_listed_too(width: int) -> None:
    limits = ["2h"] * width
    limits[width - 2] = "1h"
    world, run_id = started(ASKS, limits)
    assert shown(world, run_id) == (Status.WAITING, "approval", "ask", HOUR_MS)
    for branch in range(width - 1):
        run_now(world.service.approve(run_id, wait=f"0/0.{branch}"))
    world.deliver()
    assert shown(world, run_id) == (Status.WAITING, "approval", "ask", 2 * HOUR_MS)
    seen: list[Status] = []
    world.steps.of["work"] = lambda _: seen.append(world.header(run_id).status)
    approve(world, run_id, f"0/0.{width - 1}")
    assert (seen, world.header(run_id).status) == ([Status.RUNNING], Status.COMPLETED)


def test_a_watched_run_is_due_when_its_branches_are() -> None:
    """So the sweeper, and the list by deadline, find it in time."""
    world, run_id = started(ASKS, ["3h", "1h", "2h"])
    run_now(world.store.watch(run_id, None))
    approve(world, run_id, "0/0.1")
    header = world.header(run_id)
    assert header.waiting_until_ms is not None
    assert header.due_ms == header.waiting_until_ms // 60_000 * 60_000


def test_a_run_with_forks_in_branches_is_listed_as_waiting_once_all_of_them_wait() -> None:
    world, run_id = started(NESTED, [1, 2])
    assert shown(world, run_id)[:3] == (Status.WAITING, "approval", "ask")
    seen: list[Status] = []
    world.steps.of["work"] = lambda _: seen.append(world.header(run_id).status)
    branches = ["0/0.0/0.0", "0/0.0/0.1", "0/0.1/0.0", "0/0.1/0.1"]
    for number, branch in enumerate(branches, 1):
        approve(world, run_id, branch)
        assert seen == [Status.RUNNING] * number
        assert world.header(run_id).status is (Status.COMPLETED if number == 4 else Status.WAITING)


def test_a_branch_that_waits_and_one_whose_branches_wait_are_one_run_that_waits() -> None:
    world, run_id = started(MIXED)
    assert shown(world, run_id) == (Status.WAITING, "approval", "ask", 2 * HOUR_MS)
    view = run_now(read_run(world.service, run_id))
    assert (view["status"], view["waiting_for"]) == ("waiting", "approval")
    for branch in ("0/0.1/0.0", "0/0.1/0.1"):
        approve(world, run_id, branch)
    assert shown(world, run_id)[:3] == (Status.WAITING, "sleep", "nap")


def test_a_late_message_of_a_fork_that_is_over_changes_nothing_in_the_header() -> None:
    world, run_id = started(MIXED)
    for inner in ("0/0.1/0.0", "0/0.1/0.1"):
        approve(world, run_id, inner)
    changes = world.store.calls["change_status"]
    run_now(showing(world).show_again(branch(world, run_id, "0/0.1/0.0")))
    assert world.store.calls["change_status"] == changes


def test_a_run_does_not_wait_for_branches_that_its_complete_join_does_not_need() -> None:
    """A branch that shows its wait late sees that only waits are left, while the last to end is about to join."""
    world = World(FIRST)
    run_id = world.start()
    said: list[Status] = []

    def late(_: str, token: str, slot: int, *__: object) -> None:
        if (token, slot) != ("0", 1):
            world.store.before["append"] = late
        else:
            run_now(showing(world).show_again(branch(world, run_id, "0/0.0")))
            said.append(world.header(run_id).status)

    world.store.before["append"] = late
    world.deliver()
    assert said == [Status.RUNNING]


def test_a_worker_that_has_lost_its_message_does_not_write_the_header() -> None:
    world, run_id = started(ASKS, ["1h", "2h"])
    at, told = branch(world, run_id, "0/0.0"), StatusChange(run_id, 0, Status.RUNNING, 0, of_branch=True)
    run_now(world.store.change_status(told))
    with pytest.raises(LeaseLost, match="was shown as waiting"):
        run_now(showing(world).show(changed(at, lease=Mock(holds=lambda: False))))
    assert shown(world, run_id)[0] is Status.RUNNING
    run_now(showing(world).show(at))
    assert shown(world, run_id)[0] is Status.WAITING


def test_nor_does_one_that_went_on_with_another_step() -> None:
    world = World(AFTER)
    run_id = world.start()
    lease = Mock(holds=Mock(return_value=True), left_ms=lambda: None, is_first=lambda: True)
    world.store.before["report"] = lambda *_: lease.holds.configure_mock(return_value=False)
    with pytest.raises(LeaseLost, match="was shown as waiting"):
        world.deliver(lease)
    assert world.header(run_id).status is Status.RUNNING


@pytest.mark.parametrize(
    ("width", "bound"), [(102, 3), (102, 60), (102, 90), pytest.param(250, 100, marks=pytest.mark.slow)]
)
def test_branches_that_begin_one_after_the_other_across_pages_are_listed_too(width: int, bound: int) -> None:
    text = ASKS.replace("as: limit}", f"as: limit, max_concurrency: {bound}}}")
    limits = ["2h"] * width
    limits[1] = "1h"
    world, run_id = started(text, limits)
    assert shown(world, run_id) == (Status.WAITING, "approval", "ask", HOUR_MS)
    seen: list[Status] = []
    world.steps.of["work"] = lambda _: seen.append(world.header(run_id).status)
    while len(waiting := waiting_branches(world, run_id)) > 1:  # the second one waits to the end
        approve(world, run_id, next(one for one in waiting if one != "0/0.1"))
        assert shown(world, run_id) == (Status.WAITING, "approval", "ask", HOUR_MS)
    approve(world, run_id, "0/0.1")  # it has held back nothing
    assert world.header(run_id).status is Status.COMPLETED
    assert seen == [Status.RUNNING] * width


def test_so_is_a_wide_fork_with_several_rules_of_which_one_is_bounded() -> None:
    world, run_id = started(RULES, ["2h"] * 60)
    assert shown(world, run_id) == (Status.WAITING, "approval", "ask", 2 * HOUR_MS)
    waiting = waiting_branches(world, run_id)
    assert waiting == [*(f"0/0.{index}" for index in range(3)), *(f"0/0.{index}" for index in range(60, 120))]
    seen: list[Status] = []
    world.steps.of["work"] = lambda _: seen.append(world.header(run_id).status)
    for branch in ("0/0.0", "0/0.60", "0/0.119"):
        approve(world, run_id, branch)
        assert shown(world, run_id) == (Status.WAITING, "approval", "ask", 2 * HOUR_MS)
    assert seen == [Status.RUNNING] * 3


def test_it_waits_once_the_only_branch_that_ran_has_ended_though_its_page_has_branches_that_have_yet_to_begin() -> None:
    """They are of another rule, and no branch of their page has waited."""
    world = World(ALONE)
    world.steps.of["work"] = lambda call: fails(category="transient") if call.attempt == 1 else call.attempt
    run_id = world.start(given=["2h"] * 120)
    world.deliver()
    assert world.header(run_id).status is Status.RUNNING
    world.pass_time(2 * MINUTE_MS)
    assert shown(world, run_id) == (Status.WAITING, "approval", "ask", 2 * HOUR_MS)


@pytest.mark.parametrize("bound", [None, 104])
def test_so_is_a_fork_in_a_branch_of_a_wide_one(bound: int | None) -> None:
    """Of 105 branches, one has ended when 103 wait and the branches of the last one do, then those of others, too."""
    rule = 'foreach: "{{ input }}", as: limit' + (f", max_concurrency: {bound}" if bound else "")
    world, run_id = started(WIDE.replace("RULE", rule), ["2h"] * 100 + ["end"] + ["fork"] * 2 + ["30m"] * 2)
    assert shown(world, run_id) == (Status.WAITING, "approval", "ask", HOUR_MS // 2)
    seen: list[Status] = []
    world.steps.of["work"] = world.steps.of["hurry"] = lambda _: seen.append(world.header(run_id).status)
    first, second, last = ("ask", HOUR_MS // 2), ("inside", HOUR_MS), ("ask", 2 * HOUR_MS)
    after = {"0/0.103": first, "0/0.101/1.0": first, "0/0.104": second, "0/0.102/1.1": second,
             "0/0.101/1.1": second, "0/0.102/1.0": last}  # fmt: skip
    for number, (branch, left) in enumerate(after.items(), 1):
        approve(world, run_id, branch)
        assert seen == [Status.RUNNING] * number
        assert shown(world, run_id) == (Status.WAITING, "approval", *left), branch


def test_a_fork_in_a_branch_of_a_wide_one_costs_two_numbers_more_and_a_look_at_each_such_fork() -> None:
    """Each time its branches all wait; where others run, they are counted only."""
    rule = 'foreach: "{{ input }}", as: limit'
    world, run_id = started(WIDE.replace("RULE", rule), ["2h"] * 102 + ["fork"] * 3)
    assert world.header(run_id).status is Status.WAITING
    world.store.calls.clear()
    approve(world, run_id, "0/0.102/1.0")  # that this branch waits no more is one number; then it ends
    assert world.store.calls["report"] == 3
    assert world.store.calls["change_status"] == 2
    assert world.store.calls["read_join"] == 3 + 4 + 5  # as it goes on; once the others are looked at, and again


def test_of_several_waits_an_approval_is_listed_though_another_is_due_before_it() -> None:
    world, run_id = started(BESIDE)
    assert shown(world, run_id) == (Status.WAITING, "approval", "ask", 24 * HOUR_MS)
    assert run_now(read_run(world.service, run_id))["waiting_for"] == "approval"


def test_a_worker_that_dies_before_the_header_is_changed_is_followed_by_one_that_changes_it() -> None:
    world = World(ASKS)
    run_id = world.start(given=["1h", "2h"])

    def dies(*_: object) -> None:
        raise RuntimeError("the worker died")

    world.store.before["report"] = dies
    with pytest.raises(RuntimeError, match="died"):
        world.deliver()
    world.clock.advance(60_000)
    world.deliver()
    assert shown(world, run_id) == (Status.WAITING, "approval", "ask", HOUR_MS)


def test_a_fork_whose_branches_do_not_wait_writes_nothing_for_it() -> None:
    world, _ = started(
        ASKS.replace('wait: {for: approval, timeout: "{{ state.limit }}", on_timeout: continue}', "run: python:m.x"),
        [1, 2, 3],
    )
    assert world.store.calls["report"] == world.store.calls["read_join"] == 0


def test_a_wait_of_a_branch_costs_two_numbers_and_the_header_two_changes_when_all_wait() -> None:
    world, run_id = started(ASKS, ["1h", "2h", "3h"])
    assert (world.store.calls["report"], world.store.calls["change_status"]) == (3, 2)  # picked up, waiting
    approve(world, run_id, "0/0.0")
    assert (world.store.calls["report"], world.store.calls["change_status"]) == (4, 4)
