"""Whoever ends a run may die at any call: no branch, child run or lock outlives the run for longer than two sweeps."""

from __future__ import annotations

from contextlib import suppress
from unittest import mock

import pytest

from stepwell.definition.graph import Graph, Json
from stepwell.engine.effect_kinds import Effect, ShowStatus
from stepwell.engine.effects import effects
from stepwell.engine.records import Status
from stepwell.engine.token import Token
from stepwell.errors import PortError
from stepwell.limits import HOPS, HOUR_MS, MINUTE_MS
from stepwell.memory.queue import MemoryQueue
from stepwell.runtime.log.messages import DeadLetter, Wake
from stepwell.runtime.loop import perform
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.ports import Lane
from tests.runtime.kit import World
from tests.runtime.test_permit_kills import Watched, deliver

FORK = """
workflow: flow
nodes:
  open: {transitions: [{to: rest, foreach: "{{ [1, 2, 3] }}", as: item}]}
  rest: {wait: {for: delay, timeout: 2h}, transitions: [{to: work}]}
  work: {run: "python:m.work", transitions: [{to: met}]}
  met: {fan_in: {policy: all}}
"""
LOCKED = "workflow: flow\nlock: l\ntimeline: [{name: rest, sleep: 2h}]"
CALLED = "workflow: called\ntimeline: [{name: rest, sleep: 2h}, {name: work, run: python:m.work}]"
CALLS = "workflow: flow\ntimeline: [{name: calls, children: [{workflow: called}], timeout: 20h}]"
PAGES = """
workflow: flow
nodes:
  open: {transitions: [{to: rest, foreach: "{{ input }}"}]}
  rest: {wait: {for: event, name: e}, transitions: [{to: met}]}
  met: {fan_in: {policy: all}}
"""
ENDED = {"cancel": Status.CANCELLED, "terminate": Status.FAILED}


def ended(definitions: tuple[str, ...], operation: str, at: int, done: bool) -> tuple[World, str, bool]:
    """A run that rests, and is ended by somebody who dies at this call and never comes again."""
    world = World(*definitions)
    run_id = world.start()
    deliver(world, world.clock.now_ms())
    watched = Watched(world.store.inner, at, done)
    world.store.inner = watched
    with suppress(PortError):
        run_now(getattr(world.service, operation)(run_id))
    return world, run_id, watched.stop()


def live(world: World) -> list[str]:
    """The runs that have not ended, by their headers."""
    headers = [world.header(run_id) for run_id in world.store.inner._inner._runs]
    return [header.run_id for header in headers if not header.status.terminal]


@pytest.mark.parametrize("done", [False, True], ids=["before it", "after it"])
@pytest.mark.parametrize("operation", sorted(ENDED))
@pytest.mark.parametrize("definitions", [(FORK,), (LOCKED,), (CALLS, CALLED)], ids=["fork", "lock", "child"])
def test_a_caller_who_dies_while_it_ends_a_run_leaves_nothing_running(
    definitions: tuple[str, ...], operation: str, done: bool
) -> None:
    """Unless nothing was written: then the run goes on as if nobody had asked."""
    at, has_killed, broken_off = 1, True, 0
    while has_killed:
        world, run_id, has_killed = ended(definitions, operation, at, done)
        _sweep_twice(world)
        token = world.token(run_id)
        if token.end is not None and token.end.status is ENDED[operation]:
            broken_off += has_killed
            deliver(world, world.clock.now_ms() + 3 * HOUR_MS)
            assert not world.steps.calls, f"call {at}: a step ran after the run was ended"
            assert live(world) == [], f"call {at}"
            assert world.header(run_id).status is ENDED[operation]
            assert run_now(world.store.notes("lock:l")) == {}, f"call {at}"
        at += 1
    assert broken_off > 1


def _sweep_twice(world: World) -> None:
    for _ in range(2):
        deliver(world, world.clock.now_ms() + 6 * MINUTE_MS)
        run_now(world.sweeper.sweep(5 * MINUTE_MS))
    deliver(world, world.clock.now_ms())


def test_a_header_that_shows_the_end_first_leaves_branches_running(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mutant: the sweeper does not look at a run whose header says that it has ended."""

    def shown_first(graph: Graph, token: Token) -> tuple[Effect, ...]:
        return tuple(sorted(effects(graph, token), key=lambda one: not isinstance(one, ShowStatus)))

    monkeypatch.setattr(perform, "effects", shown_first)
    with pytest.raises(AssertionError, match="a step ran after the run was ended"):
        test_a_caller_who_dies_while_it_ends_a_run_leaves_nothing_running((FORK,), "cancel", done=False)


def test_a_run_that_ends_for_its_hops_is_closed_though_whoever_ended_it_died_after_the_first_page() -> None:
    """The branch whose wake it was is in that page, so the wake is stale when it comes again."""
    world = World(PAGES)
    run_id = world.start(given=list(range(150)))
    world.deliver()
    lost = DeadLetter(Wake(run_id, 0, "0/0.0", hops=HOPS))

    async def send_all(lane: Lane, messages: list[Json]) -> None:
        await MemoryQueue.send_all(world.queue, lane, messages[:1])
        raise PortError("the caller died")

    with mock.patch.object(world.queue, "send_all", send_all), pytest.raises(PortError):
        run_now(world.parts.coordinator.handle(lost))
    world.deliver()  # what it has sent
    assert [_has_ended(world, run_id, index) for index in (0, 149)] == [True, False]
    run_now(world.parts.coordinator.handle(lost))
    world.deliver()
    assert _has_ended(world, run_id, 149)
    assert world.header(run_id).status is Status.FAILED


def _has_ended(world: World, run_id: str, index: int) -> bool:
    (branch,) = run_now(world.service.branches(run_id, "0/0", index, 1))
    return branch.token.ended
