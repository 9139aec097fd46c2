"""Whoever pauses a workflow, has it go on, or works on its runs meanwhile may die at any call: nothing is lost."""

from __future__ import annotations

from collections import Counter

import pytest

from stepwell.engine.records import Status
from stepwell.runtime.loop.driving import run_now
from tests.lifecycle.kills import killed
from tests.lifecycle.test_pause import ASKS, FORKED, ran
from tests.lifecycle.test_pause_kills import ITEMS, again
from tests.lifecycle.test_workflow_pause import go_on, stop
from tests.runtime.kit import World

WAYS = pytest.mark.parametrize("done", [False, True], ids=["before it", "after it"])


def waiting() -> tuple[World, str]:
    world = World(ASKS)
    run_id = world.start()
    world.deliver()
    return world, run_id


def stopped() -> tuple[World, str]:
    world = World(FORKED)
    world.steps.of["work"] = lambda call: stop(world)
    run_id = world.start(given=ITEMS)
    world.deliver()
    world.steps.of["work"] = lambda call: "work"
    assert world.header(run_id).status is Status.PAUSED
    return world, run_id


@WAYS
def test_a_pause_that_is_asked_for_again_stops_the_workflow(done: bool) -> None:
    for world, run_id in killed(waiting, lambda world, _: stop(world), done=done, least=2):
        assert again(lambda world, _: stop(world), world, run_id) == "done"
        run_now(world.service.approve(run_id, None, "leo"))
        world.deliver()
        assert ran(world) == ["charge"]
        go_on(world)
        world.deliver()
        assert ran(world) == ["charge", "ship"]


@WAYS
def test_an_unpause_whose_caller_died_happens_whole_or_not_at_all(done: bool) -> None:
    for world, run_id in killed(stopped, lambda world, _: go_on(world), done=done, least=1):
        world.deliver()
        assert again(lambda world, _: go_on(world), world, run_id) in {"done", "not_paused"}
        world.pass_time(600_000)
        assert world.header(run_id).status is Status.COMPLETED
        assert Counter(ran(world)) == {"work": 3, "check": 3}


@WAYS
def test_whoever_has_the_runs_go_on_may_die_at_each_call(done: bool) -> None:
    def asked() -> tuple[World, str]:
        world, run_id = stopped()
        go_on(world)
        return world, run_id

    for world, run_id in killed(asked, lambda world, _: world.pass_time(0), done=done):
        world.pass_time(600_000)
        assert world.header(run_id).status is Status.COMPLETED
        assert Counter(ran(world))["check"] >= 3


@WAYS
def test_a_worker_that_dies_as_it_stops_its_run_leaves_one_that_goes_on(done: bool) -> None:
    def begun() -> tuple[World, str]:
        world = World(FORKED)
        world.steps.of["work"] = lambda call: stop(world)
        return world, world.start(given=ITEMS)

    for world, run_id in killed(begun, lambda world, _: world.pass_time(0), done=done):
        world.pass_time(600_000)
        assert "check" not in ran(world)
        assert world.header(run_id).status is Status.PAUSED
        world.steps.of["work"] = lambda call: "work"
        go_on(world)
        world.pass_time(600_000)
        assert world.header(run_id).status is Status.COMPLETED
        assert len({call.key for call in world.steps.calls}) == 6
