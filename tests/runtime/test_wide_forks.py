"""Forks of thousands: one join whatever comes twice, and memory by the message and not by the width.

`python -m tests.runtime.wide_forks` measures the same for ten thousand branches.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from stepwell.engine.records import Kind, Status
from stepwell.runtime.log import kept_forks
from stepwell.runtime.log.standing import standing_bytes
from stepwell.runtime.loop.driving import run_now
from tests.runtime.kit import World
from tests.runtime.wide_forks import Peaks, handle, peaks, received, started, twice_in_any_order

WIDE, NARROW = 4_000, 400
FLAT = """
workflow: flow
nodes:
  begin: {transitions: [{to: score, foreach: "{{ input.ids }}"}]}
  score: {run: python:m.score, transitions: [{to: gather}]}
  gather: {fan_in: {policy: all}, transitions: [{to: done}]}
  done: {}
"""
NESTED = """
workflow: flow
nodes:
  begin: {transitions: [{to: score, foreach: "{{ input.ids }}"}]}
  score: {run: python:m.score, transitions: [{to: part, foreach: "{{ [1, 2] }}"}]}
  part: {run: python:m.part, transitions: [{to: gather}]}
  gather: {fan_in: {policy: all}, transitions: [{to: meet}]}
  meet: {fan_in: {policy: all}, transitions: [{to: done}]}
  done: {}
"""


@pytest.fixture(scope="module")
def wide() -> Peaks:
    return peaks(WIDE, every=20)


def test_two_thousand_branches_whose_messages_come_twice_and_in_any_order_join_once() -> None:
    world, run_id = started(2_000)
    assert twice_in_any_order(world) == 2 + 2 * 200  # the copy of the first leaves the run to it
    assert world.token(run_id).scope["found"] == [{"score": n} for n in range(2_000)]
    assert world.header(run_id).status is Status.COMPLETED
    kinds = Counter(record.kind for record in run_now(world.service.records(run_id)))
    assert kinds[Kind.JOINED] == 1
    assert Counter(call.key for call in world.steps.calls).most_common(1)[0][1] == 1  # no step ran again


def test_branches_that_arrive_after_the_join_do_not_each_read_what_it_made() -> None:
    world, run_id = started(200)
    handle(world, received(world)[0])
    messages = received(world)
    for one in messages:
        handle(world, one)
    world.store.calls.clear()
    for one in messages:
        handle(world, replace(one, deliveries=2))
    assert world.header(run_id).status is Status.COMPLETED
    assert world.store.calls["load"] == 200 + 2  # each branch; the parent once, and by who joined it


@pytest.mark.parametrize("text", [FLAT, NESTED], ids=["flat", "nested"])
def test_a_fork_of_a_large_state_is_read_as_often_as_one_of_a_small_state(text: str) -> None:
    loads = []
    for size_bytes in (10, 3_000_000):
        world = World(text)
        run_id = world.start(given={"ids": list(range(100)), "beside": "x" * size_bytes})
        world.deliver()
        assert world.header(run_id).status is Status.COMPLETED
        loads.append(world.store.calls["load"])
    assert loads[0] == loads[1]


def test_the_state_around_the_forks_of_branches_is_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[str] = []
    monkeypatch.setattr(kept_forks, "standing_bytes", lambda at: measured.append(at.token.id) or standing_bytes(at))
    world = World(NESTED)
    run_id = world.start(given={"ids": list(range(100)), "beside": "x" * 3_000_000})
    world.deliver()
    assert world.header(run_id).status is Status.COMPLETED
    assert measured == ["0"]


def test_the_memory_of_an_invocation_does_not_grow_with_the_width(wide: Peaks) -> None:
    """But for the set of the fork's pages, which has a hundredth of the width."""
    narrow = peaks(NARROW, every=4)
    assert wide.warm < 1.5 * narrow.warm
    assert wide.warm < 100_000


def test_a_cold_worker_holds_the_users_items_and_nothing_else_that_grows(wide: Peaks) -> None:
    assert wide.cold - wide.warm < 64 * WIDE  # of each its place in the list, its number and its text


def test_a_join_holds_the_outputs_and_not_the_branches(wide: Peaks) -> None:
    assert wide.join < 1_200 * WIDE
