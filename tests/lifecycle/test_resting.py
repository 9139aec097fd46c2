"""Who stops for a pause is woken once when it is over, and who is at a step goes on: no step begins twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from stepwell.engine.records import Status
from stepwell.errors import PortError
from stepwell.runtime.dispatch import dispatch
from stepwell.runtime.log.door import Unlimited
from stepwell.runtime.log.standing import Standing
from stepwell.runtime.loop import resting
from stepwell.runtime.loop.advance import can_move
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.loop.resting import Resting
from stepwell.runtime.ports import Lane
from tests.contract.kit import STORES
from tests.lifecycle.test_pause import DAG, FLOW, FORKED, pause, ran, unpause
from tests.lifecycle.test_workflow_pause import go_on, stop
from tests.runtime.kit import World

BATCHED = FLOW.replace("workflow: flow", "workflow: flow\ndurability: batch")
AT_MOST = BATCHED.replace("python:shop.pack}", "python:shop.pack, at_most_once: true}")
PROGRAMS = {
    "flow": (FLOW, "charge"),
    "fork": (FORKED, "work"),
    "dag": (DAG, "a"),
    "batch": (BATCHED, "charge"),
    "at most": (AT_MOST, "charge"),
}
ONCE = {
    "flow": Counter(charge=1, pack=1, ship=1),
    "fork": Counter(work=3, check=3),
    "dag": Counter("abcd"),
    "batch": Counter(charge=1, pack=1, ship=1),
    "at most": Counter(charge=1, pack=1, ship=1),
}
GIVEN = {"items": [1, 2, 3]}
MOST_CALLS = 40  # of a store, while a run rests


class Interrupted:
    """A store: right before one of its calls, something else happens."""

    def __init__(self, inner: Any, act: Callable[[], object]) -> None:
        self.inner, self.act = inner, act
        self.left = -1  # calls before it; -1: it does not happen

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.inner, name)

        async def call(*args: Any, **named: Any) -> Any:
            self.left -= 1
            if self.left == 0:
                self.act()
            return await method(*args, **named)

        return call


def played(name: str, calls: int) -> tuple[Counter[str], Status, bool]:
    """A run that is paused in a step, and goes on right before the store's call of this number after that.

    Which steps began, how often; its status; and whether there was such a call.
    """
    world = World(PROGRAMS[name][0])

    def ends() -> None:
        """The wakes of those who rest lie still: whoever was at work goes on first."""
        if not world.token(run_id).ended:
            unpause(world, run_id)
        while (one := world.queue.receive((Lane.RESUME,), world.clock.now_ms(), 60_000)) is not None:
            run_now(dispatch(world.parts, one.lane, one.message, Unlimited(one.deliveries)))
            world.queue.delete(one)

    store = world.store.inner = Interrupted(world.store.inner, ends)
    begun: list[str] = []

    def step(call: Any) -> Any:
        begun.append(call.node)
        if len(begun) == 1:
            pause(world, call.run_id)
            store.left = calls
        else:
            world.deliver()  # other workers, while this one is at the step
        return call.node

    world.steps.of = dict.fromkeys(ONCE[name], step)
    run_id = world.start(given=GIVEN)
    world.deliver()
    is_over, store.left = store.left <= 0, -1
    if not is_over:
        ends()
    world.deliver()
    return Counter(ran(world)), world.header(run_id).status, is_over


def broken(name: str) -> list[int]:
    """The calls at which the end of the pause has a step begin twice, or not at all."""
    found = []
    for calls in range(1, MOST_CALLS):
        steps, status, is_over = played(name, calls)
        if (steps, status) != (ONCE[name], Status.COMPLETED):
            found.append(calls)
        if not is_over:
            return found
    raise AssertionError(f"more than {MOST_CALLS} calls")


@pytest.mark.parametrize("name", PROGRAMS)
def test_wherever_the_end_of_a_pause_falls_each_step_begins_once(name: str) -> None:
    assert broken(name) == []


@pytest.mark.parametrize("store", ["memory", "sqlite", "dynamodb"])
@pytest.mark.parametrize("of_workflow", [False, True], ids=["run", "workflow"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_step_that_runs_through_a_pause_begins_once(name: str, of_workflow: bool, store: str, tmp_path: Path) -> None:
    adapter = next(one for one in STORES if one.name == store)
    text, node = PROGRAMS[name]
    with adapter.open(tmp_path) as opened:
        world = World(text)
        world.store.inner = opened
        begun: list[str] = []

        def step(call: Any) -> Any:
            begun.append(call.node)
            if len(begun) == 1:
                stop(world) if of_workflow else pause(world, call.run_id)
                go_on(world) if of_workflow else unpause(world, call.run_id)
                world.deliver()  # other workers, while this one is at the step
            return node

        world.steps.of[node] = step
        run_id = world.start(given=GIVEN)
        world.deliver()
        assert (Counter(ran(world)), world.header(run_id).status) == (ONCE[name], Status.COMPLETED)


@contextmanager
def wakes_whatever_can_move() -> Iterator[None]:
    async def is_woken(self: Resting, at: Standing, paused_ms: int) -> bool:
        return can_move(at.token)

    with mock.patch.object(Resting, "is_woken", is_woken):
        yield


@contextmanager
def looks_once() -> Iterator[None]:
    """It says that it rests, and does not look whether the pause is over."""

    async def rests(self: Resting, at: Standing) -> None:
        await self._tells(at, resting._RESTS)

    with mock.patch.object(Resting, "rests", rests):
        yield


@contextmanager
def compares_nothing() -> Iterator[None]:
    """It goes on when the pause is over, although it was woken meanwhile."""
    tells = Resting._tells

    async def told(self: Resting, at: Standing, what: str, before: str = "") -> bool:
        return await tells(self, at, what, "" if what == resting._GOES_ON else before)

    with mock.patch.object(Resting, "_tells", told):
        yield


@pytest.mark.parametrize("mutant", [wakes_whatever_can_move, looks_once, compares_nothing])
def test_a_rest_without_one_of_its_parts_is_caught(mutant: Callable[[], AbstractContextManager[None]]) -> None:
    with mutant():
        assert broken("flow")


def test_a_token_that_was_noted_as_woken_before_another_pause_is_woken_by_the_message_that_noted_it() -> None:
    """The queue did not take the wake, and the run was paused again before the message came again."""
    world = World(FLOW)
    run_id = world.start()
    pause(world, run_id)
    world.deliver()
    unpause(world, run_id)
    one = world.queue.receive((Lane.RESUME,), world.clock.now_ms(), 0)
    assert one is not None
    with mock.patch.object(world.queue, "send", side_effect=PortError("no answer")), pytest.raises(PortError):
        run_now(dispatch(world.parts, one.lane, one.message, Unlimited(one.deliveries)))
    world.clock.set(world.clock.now_ms() + 1)  # a pause is told from another by its time
    pause(world, run_id)
    world.deliver()
    assert ran(world) == []
    unpause(world, run_id)
    world.deliver()
    assert ran(world) == ["charge", "pack", "ship"]
