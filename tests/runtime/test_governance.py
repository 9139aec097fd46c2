"""A blocked step waits for a person, tells whoever listens once, and ends as the person, or nobody, says."""

from __future__ import annotations

import pytest

from stepwell.engine.records import Status, Topic
from stepwell.errors import PortError
from stepwell.limits import DAY_MS
from stepwell.runtime.loop.driving import run_now
from tests.runtime.kit import World, fails

FLOW = "workflow: flow\ntimeline: [{name: a, run: python:m.a}, {name: b, run: python:m.b}]\n"


def blocked() -> tuple[World, str]:
    world = World(FLOW)
    world.steps.of["a"] = lambda call: fails("Blocked", "governance") if call.resumed is None else 1
    run_id = world.start()
    world.deliver()
    assert world.header(run_id).waiting_for == "approval"
    return world, run_id


def told(world: World) -> int:
    return len(world.store.inner._events[Topic("governance.blocked")])


def test_a_no_fails_the_run_with_its_reason() -> None:
    world, run_id = blocked()
    run_now(world.service.reject(run_id, "not this time", who="ana"))
    world.deliver()
    error = world.token(run_id).error
    assert (world.header(run_id).status, error and error.type) == (Status.FAILED, "rejected")
    assert len(world.steps.calls) == 1


def test_nobody_who_answers_times_the_run_out() -> None:
    world, run_id = blocked()
    world.pass_time(DAY_MS)
    error = world.token(run_id).error
    assert (world.header(run_id).status, error and error.type) == (Status.TIMED_OUT, "approval_timeout")
    assert told(world) == 1


def test_a_step_that_is_blocked_again_asks_again() -> None:
    world, run_id = blocked()
    world.steps.of["a"] = lambda call: fails("Blocked", "governance")
    run_now(world.service.approve(run_id, who="ana"))
    world.deliver()
    assert (world.header(run_id).waiting_for, told(world)) == ("approval", 2)


def test_it_is_told_once_though_its_worker_dies() -> None:
    world = World(FLOW)
    world.steps.of["a"] = lambda call: fails("Blocked", "governance") if call.resumed is None else 1
    run_id = world.start()

    def dies(*_: object) -> None:
        raise PortError("gone")

    world.store.before["append"] = lambda *_: world.store.before.update(append=dies)  # of the wait
    with pytest.raises(PortError):
        world.deliver()
    world.pass_time(120_000)
    assert (world.header(run_id).waiting_for, told(world)) == ("approval", 1)
    assert len(world.steps.calls) == 1
