"""Lanes at work: a fork with them ends as one without, in far fewer writes, whoever dies, pauses, cancels or looks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from stepwell.engine.entries import Entry
from stepwell.engine.forks.lanes import split_lane
from stepwell.engine.records import Kind, Status
from stepwell.engine.stored.batches import arrived_in
from stepwell.errors import PortError
from stepwell.local.database import Database
from stepwell.local.sqlite_store import SqliteStore
from stepwell.runtime.calls.exporting import read_export
from stepwell.runtime.forks.forked import forks_of
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.notify.telling import Teller
from tests.lifecycle.kills import Killer
from tests.runtime.kit import World, fails

LANE = 10
FLOW = """
workflow: flow
nodes:
  begin: {transitions: [{to: work, foreach: "{{ input }}"}]}
  work: {run: python:m.work, output: {n: "{{ result }}"}, transitions: [{to: check}]}
  check: {run: python:m.check, transitions: [{to: gather}]}
  gather: {fan_in: {policy: all, target: found}, transitions: [{to: last}]}
  last: {run: python:m.last}
"""
ONE_STEP = FLOW.replace("{to: check}", "{to: gather}").replace(
    "  check: {run: python:m.check, transitions: [{to: gather}]}\n", ""
)
SOME_WAIT = """
workflow: flow
nodes:
  begin: {transitions: [{to: work, foreach: "{{ input }}"}]}
  work: {run: python:m.work, transitions: [{to: ask, when: "result % 3 == 0"}, {to: gather}]}
  ask: {wait: {for: approval}, transitions: [{to: gather}]}
  gather: {fan_in: {policy: all}}
"""
NESTED = """
workflow: flow
nodes:
  begin: {transitions: [{to: half, foreach: "{{ input }}"}]}
  half: {run: python:m.half, transitions: [{to: work, foreach: "{{ input }}"}]}
  work: {run: python:m.work, transitions: [{to: inner}]}
  inner: {fan_in: {policy: all}, transitions: [{to: gather}]}
  gather: {fan_in: {policy: all}}
"""


def world_of(text: str = FLOW, lane: int = LANE) -> World:
    world = World(text, lane=lane)
    world.steps.of["work"] = lambda call: call.input["item"]
    return world


def done(text: str = FLOW, width: int = 12, lane: int = LANE) -> tuple[World, str]:
    world = world_of(text, lane)
    run_id = world.start(given=list(range(width)))
    world.deliver()
    return world, run_id


def history(world: World, run_id: str) -> list[tuple[str, str, str, Any]]:
    async def all_of() -> list[Entry]:
        return [one async for one in (await world.service.narrator(run_id)).entries()]

    return [(one.id, one.type, one.token, one.data) for one in run_now(all_of())]


def exported(world: World, run_id: str) -> list[Any]:
    page = run_now(read_export(world.parts.ports, world.header(run_id), "", 1_000))
    return list(page.items)


def batches(world: World) -> Counter[str]:
    """How many puts each lane has had."""
    return Counter({token: len(log.slots) for (_, token), log in world.store.inner._logs.items() if split_lane(token)})


# -- the same as without


@pytest.mark.parametrize("text", [FLOW, SOME_WAIT, NESTED])
@pytest.mark.parametrize("width", [2, 10, 13, 120])
def test_a_fork_with_lanes_ends_as_one_without_and_is_told_the_same(text: str, width: int) -> None:
    if text == NESTED and width > 13:
        pytest.skip("14,400 branches")
    (plain, first), (laned, second) = ((world, run_id) for world, run_id in (done(text, width, 0), done(text, width)))
    for world, run_id in ((plain, first), (laned, second)):
        for index in range(0, width, 3) if text == SOME_WAIT else ():
            assert world.header(run_id).status is Status.WAITING
            run_now(world.service.approve(run_id, wait=f"0/0.{index}"))
            world.deliver()
        assert world.header(run_id).status is Status.COMPLETED
    assert laned.token(second).scope == plain.token(first).scope
    assert laned.token(second).calls == plain.token(first).calls
    assert history(laned, second) == history(plain, first)
    assert [{**one, "record": {**one["record"], "v": 2}} for one in exported(laned, second)[1:]] == exported(
        plain, first
    )[1:]
    assert run_now(forks_of(laned.store, laned.blobs, second)) == run_now(forks_of(plain.store, plain.blobs, first))
    assert batches(laned)
    assert not batches(plain)


def test_branches_that_share_a_message_are_written_together_step_by_step() -> None:
    world, _ = done(width=20)
    assert batches(world) == {"0/0.0+10": 2, "0/0.10+10": 2}
    assert world.store.calls["arrive"] == 0
    assert world.store.calls["append"] == 1 + 2 * 2 + 3


def test_a_branch_that_parks_leaves_its_lane_and_the_others_do_not_wait_for_it() -> None:
    world, run_id = done(SOME_WAIT, width=10)
    assert world.header(run_id).status is Status.WAITING
    assert world.store.calls["arrive"] == 0
    branches = run_now(world.service.branches(run_id, "0/0", 0, 10))
    assert [one.token.ended for one in branches] == [index % 3 != 0 for index in range(10)]
    for index in (0, 3, 6, 9):
        run_now(world.service.approve(run_id, wait=f"0/0.{index}"))
        world.deliver()
    assert world.store.calls["arrive"] == 4
    assert world.header(run_id).status is Status.COMPLETED


@pytest.mark.parametrize("large", ["x" * 5_000, "x" * 50_000])
def test_large_results_that_were_ready_together_are_read_by_the_join_alone(large: str) -> None:
    world = world_of(ONE_STEP)
    world.steps.of["work"] = lambda call: large + str(call.input["item"])
    run_id = world.start(given=list(range(20)))
    world.deliver()
    assert [one["n"] for one in world.token(run_id).scope["found"]] == [large + str(n) for n in range(20)]
    assert batches(world) == {"0/0.0+10": 1, "0/0.10+10": 1}
    bodies = [log.records[0].body for (_, token), log in world.store.inner._logs.items() if split_lane(token)]
    assert [len(body) < 400 for body in bodies] == [True, True]
    assert [arrived_in(body) for body in bodies] == [{str(n) for n in range(10)}, {str(n) for n in range(10, 20)}]


@pytest.mark.parametrize(("size", "is_own"), [(10, False), (3_000, True)])
def test_a_large_result_that_nobody_shares_a_write_with_goes_to_its_branchs_own_log(size: int, is_own: bool) -> None:
    """What lies in a lane is read by everybody who asks if its page is complete."""
    world = world_of(ONE_STEP)

    def slow(call: Any) -> str:
        if call.late is not None:
            run_now(call.late())
        return "x" * size

    world.steps.of["work"] = slow
    run_id = world.start(given=list(range(4)))
    world.deliver()
    assert world.header(run_id).status is Status.COMPLETED
    assert [one["n"] for one in world.token(run_id).scope["found"]] == ["x" * size] * 4
    own = {token for (_, token) in world.store.inner._logs if token.startswith("0/0.") and not split_lane(token)}
    assert ("0/0.0" in own, own >= {"0/0.1", "0/0.2", "0/0.3"}) == (is_own, True)


def test_of_branches_that_were_handed_over_the_last_one_alone_reads_their_page() -> None:
    """The others know who is still to arrive. Beside it read: who ended in the lane before them, and the join."""
    world = world_of(ONE_STEP)
    world.steps.of["work"] = lambda call: run_now(call.late()) if call.late is not None else None
    world.start(given=list(range(10)))
    world.deliver()
    assert (world.store.calls["arrive"], world.store.calls["read_join"]) == (9, 1 + 2)


def test_a_failure_ends_the_fork_before_the_others_of_its_message_begin() -> None:
    world = world_of()
    world.steps.of["work"] = lambda call: fails() if call.input["item"] == 3 else call.input["item"]
    run_id = world.start(given=list(range(10)))
    world.deliver()
    assert world.header(run_id).status is Status.FAILED
    assert [(call.node, call.token) for call in world.steps.calls] == [("work", f"0/0.{index}") for index in range(4)]
    statuses = [one.token.end.status for one in run_now(world.service.branches(run_id, "0/0", 0, 10)) if one.token.end]
    assert Counter(statuses) == {Status.FAILED: 1, Status.CANCELLED: 9}


# -- others come in between


def test_a_cancel_ends_a_lane_by_one_write() -> None:
    world = world_of()
    run_id = world.start(given=list(range(20)))
    cancelled: list[bool] = []

    def work(call: Any) -> int:
        if not cancelled:
            cancelled.append(run_now(world.service.cancel(run_id)))
        return 1

    world.steps.of["work"] = work
    world.deliver()
    assert world.header(run_id).status is Status.CANCELLED
    assert batches(world) == {"0/0.0+10": 1, "0/0.10+10": 1}
    branches = run_now(world.service.branches(run_id, "0/0", 0, 20))
    assert {one.token.end.status for one in branches if one.token.end} == {Status.CANCELLED}
    assert len(branches) == 20


def test_a_pause_holds_branches_whose_records_were_ready() -> None:
    world = world_of()
    run_id = world.start(given=list(range(10)))
    paused: list[int] = []

    def work(call: Any) -> int:
        if not paused:
            paused.append(1)
            run_now(world.service.pause(run_id))
        return int(call.input["item"])

    world.steps.of["work"] = work
    world.deliver()
    assert world.header(run_id).status is Status.PAUSED
    assert {call.node for call in world.steps.calls} == {"work"}
    run_now(world.service.unpause(run_id))
    world.deliver()
    assert world.header(run_id).status is Status.COMPLETED
    assert Counter(call.node for call in world.steps.calls) == {"work": 10, "check": 10, "last": 1}


def test_a_subscriber_is_told_what_a_batch_holds_whatever_it_has_missed() -> None:
    plain, laned = done(width=10, lane=0), done(width=10)
    told = []
    for world, run_id in (plain, laned):
        teller, notices = Teller(world.store, world.store, world.store, world.blobs), []
        for (_, token), log in world.store.inner._logs.items():
            for saved in log.after(-1, None):
                notices += run_now(teller.appended(run_id, token, saved.slot, saved.body))
        told.append(sorted(notice.id.partition("/")[2] for notice in notices))
    assert told[0] == told[1]
    world, run_id = done(SOME_WAIT, width=10)
    own = world.store.inner._logs[run_id, "0/0.3"].after(-1, None)[0]
    assert run_now(
        Teller(world.store, world.store, world.store, world.blobs).appended(run_id, "0/0.3", own.slot, own.body)
    )


def test_a_redriven_run_has_branches_with_logs_of_their_own() -> None:
    world = world_of()
    world.steps.of["check"] = lambda call: fails() if call.token.endswith(".7") else 1
    run_id = world.start(given=list(range(10)))
    world.deliver()
    assert world.header(run_id).status is Status.FAILED
    del world.steps.of["check"]
    again = run_now(world.service.redrive(run_id)).header.run_id
    world.deliver()
    assert world.header(again).status is Status.COMPLETED
    assert [one["n"] for one in world.token(again).scope["found"]] == list(range(10))


# -- whoever dies


@contextmanager
def stored_in(kind: str, path: Path) -> Iterator[World]:
    world = world_of()
    if kind == "memory":
        yield world
        return
    database = Database(path)
    try:
        world.store.inner = SqliteStore(database)
        yield world
    finally:
        database.close()


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.parametrize("after", [False, True], ids=["before it", "after it"])
def test_a_worker_that_dies_at_any_call_loses_nothing(kind: str, after: bool, tmp_path: Path) -> None:
    """Two lanes, two steps each: the message comes again, and the join is one."""
    at, is_killed = 1, True
    while is_killed:
        with stored_in(kind, tmp_path / f"{at}.db") as world:
            run_id = world.start(given=list(range(11)))
            is_killed = deliver_killed(world, at, after)
            assert world.header(run_id).status is Status.COMPLETED, at
            assert [one["n"] for one in world.token(run_id).scope["found"]] == list(range(11))
            joins = [record for record in run_now(world.service.records(run_id)) if record.kind is Kind.JOINED]
            assert len(joins) == 1
        at += 1
    assert at > 15


@pytest.mark.parametrize("after", [False, True], ids=["before it", "after it"])
def test_a_worker_that_dies_while_branches_leave_their_lane_loses_none(after: bool) -> None:
    at, is_killed = 1, True
    while is_killed:
        world = world_of(SOME_WAIT)
        run_id = world.start(given=[1, 2, 3, 6])
        is_killed = deliver_killed(world, at, after)
        for index in (2, 3):
            run_now(world.service.approve(run_id, wait=f"0/0.{index}"))
            world.deliver()
        assert world.header(run_id).status is Status.COMPLETED, at
        at += 1
    assert at > 15


def deliver_killed(world: World, at: int, after: bool) -> bool:
    """All messages, until nothing is left; the n-th call of all kills its caller. Returns whether it did."""
    killer = Killer(world, at, after)
    while True:
        try:
            world.deliver()
        except PortError:
            world.clock.advance(61_000)  # the lease is over, and the message comes again
        else:
            break
    world.store.inner = killer._inner
    return killer.has_killed
