"""Whoever pauses a run, has it go on, or works on it meanwhile may die at any call: nothing is lost."""

from __future__ import annotations

from collections import Counter

import pytest

from stepwell.engine.records import Status
from stepwell.errors import Conflict
from stepwell.runtime.loop.driving import run_now
from tests.lifecycle.kills import Act, killed
from tests.lifecycle.test_pause import ASKS, FORKED, pause, ran, unpause
from tests.runtime.kit import World

ITEMS = {"items": [1, 2, 3]}


def waiting() -> tuple[World, str]:
    world = World(ASKS)
    run_id = world.start()
    world.deliver()
    return world, run_id


def held() -> tuple[World, str]:
    world = World(FORKED)

    def work(call: object) -> str:
        if not run_now(world.store.inner.get_run(run_ids[0])).paused_ms:
            pause(world, run_ids[0])
        return "work"

    world.steps.of["work"] = work
    run_ids = [world.start(given=ITEMS)]
    world.deliver()
    assert ran(world) == ["work"]
    world.steps.of["work"] = lambda call: "work"
    return world, run_ids[0]


def again(act: Act, world: World, run_id: str) -> str:
    """What a caller is told who did not hear the first answer."""
    try:
        act(world, run_id)
    except Conflict as refused:
        return refused.code
    return "done"


@pytest.mark.parametrize("done", [False, True], ids=["before it", "after it"])
def test_a_pause_that_is_asked_for_again_holds_the_run(done: bool) -> None:
    for world, run_id in killed(waiting, pause, done=done):
        assert again(pause, world, run_id) == "done"
        run_now(world.service.approve(run_id, None, "leo"))
        world.deliver()
        assert ran(world) == ["charge"]
        unpause(world, run_id)
        world.deliver()
        assert ran(world) == ["charge", "ship"]


@pytest.mark.parametrize("done", [False, True], ids=["before it", "after it"])
def test_an_unpause_whose_caller_died_happens_whole_or_not_at_all(done: bool) -> None:
    """Where it happened, whoever asks again hears that nothing is paused, and the run goes on all the same."""
    for world, run_id in killed(held, unpause, done=done):
        world.deliver()
        assert again(unpause, world, run_id) in {"done", "not_paused", "run_ended"}
        world.pass_time(600_000)
        assert world.header(run_id).status is Status.COMPLETED
        assert Counter(ran(world)) == {"work": 3, "check": 3}


@pytest.mark.parametrize("done", [False, True], ids=["before it", "after it"])
def test_a_worker_that_dies_on_its_way_past_the_mark_loses_no_result(done: bool) -> None:
    """Its message comes again. What its step returned may be returned twice, as always; it is kept once."""

    def prepared() -> tuple[World, str]:
        world = World(ASKS)
        run_id, begun = world.start(), list[str]()

        def charge(call: object) -> str:
            begun.append("charge")
            if len(begun) == 1:
                pause(world, run_id)
            return "charge"

        world.steps.of["charge"] = charge
        return world, run_id

    for world, run_id in killed(prepared, lambda world, _: world.pass_time(0), done=done):
        world.pass_time(600_000)
        assert "agree" not in world.token(run_id).steps or not world.header(run_id).paused_ms
        again(unpause, world, run_id)
        world.deliver()
        run_now(world.service.approve(run_id, None, "leo"))
        world.deliver()
        assert world.header(run_id).status is Status.COMPLETED
        assert len({call.key for call in world.steps.calls if call.node == "charge"}) == 1
