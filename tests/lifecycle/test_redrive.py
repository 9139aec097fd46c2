"""Redriving graphs: a new run goes on from where another failed, and runs no completed step again."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from stepwell.engine.records import Kind
from stepwell.errors import Conflict, InvalidInput, NotFound
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.notify.telling import Teller
from tests.runtime.kit import World, fails, graph_of

FLOW = """
workflow: flow
timeout: 1d
timeline:
  - {name: charge, run: python:shop.charge}
  - {name: pack, run: python:shop.pack}
  - {name: ship, run: python:shop.ship, retry: {max_retries: 1, initial_delay: 1s}}
  - {name: tell, run: python:shop.tell}
"""
MENDED = FLOW.replace("max_retries: 1", "max_retries: 2")


class Luck:
    """Steps that fail until they are mended."""

    def __init__(self, world: World, *broken: str) -> None:
        self.broken, self.world = set(broken), world
        for node in broken:
            world.steps.of[node] = self._attempt

    def _attempt(self, call: Any) -> Any:
        return fails(category="transient") if call.node in self.broken else call.node


def world_of(*definitions: str, broken: tuple[str, ...] = ("ship",)) -> tuple[World, str]:
    """A world, and the id of its run that failed."""
    world = World(*(definitions or (FLOW,)))
    luck = Luck(world, *broken)
    run_id = world.start(given={"id": 7}, tags={"customer": "c1"})
    world.pass_time(600_000)
    luck.broken.clear()
    return world, run_id


def redriven(world: World, run_id: str, **options: Any) -> str:
    return run_now(world.service.redrive(run_id, **options)).header.run_id


def ran(world: World, run_id: str) -> list[str]:
    return [call.node for call in world.steps.calls if call.run_id == run_id]


def refusal(world: World, run_id: str, **options: Any) -> str:
    with pytest.raises((Conflict, InvalidInput, NotFound)) as refused:
        redriven(world, run_id, **options)
    return refused.value.code


def test_the_new_run_keeps_what_was_completed_and_begins_at_the_failed_step() -> None:
    world, run_id = world_of()
    again = redriven(world, run_id)
    world.pass_time(600_000)
    assert ran(world, run_id) == ["charge", "pack", "ship", "ship"]
    assert ran(world, again) == ["ship", "tell"]
    token, header = world.token(again), world.header(again)
    assert token.scope == {"charge": "charge", "pack": "pack", "ship": "ship", "tell": "tell"}
    assert (header.status, header.origin, header.input) == ("completed", f"redrive:{run_id}", {"id": 7})
    assert (header.tags, token.calls) == ({"customer": "c1"}, 2)
    assert world.header(run_id).status == "failed"


def test_the_failed_step_keeps_its_idempotency_key_and_the_steps_after_it_get_new_ones() -> None:
    """What the failed attempt did may have happened: the other side is to know the new attempt as the same call."""
    world, run_id = world_of()
    again = redriven(world, run_id)
    world.pass_time(600_000)
    keys = {(call.run_id, call.node): call.key for call in world.steps.calls}
    assert keys[again, "ship"] == keys[run_id, "ship"] == f"{run_id}:0:2"
    assert keys[again, "tell"].startswith(f"{again}:0:")


def test_all_tries_of_a_redriven_step_have_one_key_also_when_it_is_redriven_again() -> None:
    world, run_id = world_of()
    luck = Luck(world, "ship")
    second = redriven(world, run_id)
    world.pass_time(600_000)
    luck.broken.clear()
    third = redriven(world, second)
    world.pass_time(600_000)
    assert world.header(third).status == "completed"
    assert ran(world, second) == ["ship", "ship"]  # its retries begin anew
    assert {call.key for call in world.steps.calls if call.node == "ship"} == {f"{run_id}:0:2"}


def test_an_action_of_the_timeout_of_a_redriven_wait_is_a_call_of_its_own() -> None:
    """The wait begins anew, and so does what its time-out sends: with the failed run's key, nobody would get it."""
    world = World("""
workflow: flow
timeline:
  - name: hear
    wait: {for: response, timeout: 1h, timeout_actions: [{run: python:shop.remind}, {run: python:shop.note}]}
""")
    run_id = world.start()
    world.pass_time(3_601_000)
    again = redriven(world, run_id)
    world.pass_time(3_601_000)
    assert [world.header(one).status for one in (run_id, again)] == ["timed_out", "timed_out"]
    assert (len(world.steps.calls), len({call.key for call in world.steps.calls})) == (4, 4)


def test_from_an_earlier_step_it_runs_again_with_a_key_of_its_own() -> None:
    world, run_id = world_of()
    again = redriven(world, run_id, since="pack")
    world.pass_time(600_000)
    assert ran(world, again) == ["pack", "ship", "tell"]
    keys = {call.key for call in world.steps.calls if call.node == "pack"}
    assert len(keys) == 2


def test_a_step_that_it_did_not_come_to_is_refused() -> None:
    world, run_id = world_of()
    assert refusal(world, run_id, since="tell") == "unknown_step"


def test_the_first_step_can_be_redriven() -> None:
    world, run_id = world_of(broken=("charge",))
    again = redriven(world, run_id)
    world.pass_time(600_000)
    assert ran(world, again) == ["charge", "pack", "ship", "tell"]
    assert len({call.key for call in world.steps.calls if call.node == "charge"}) == 1


def test_a_run_is_redriven_once_however_often_it_is_asked_for() -> None:
    world, run_id = world_of()
    first = run_now(world.service.redrive(run_id))
    second = run_now(world.service.redrive(run_id))
    assert (first.created, second.created) == (True, False)
    assert first.header.run_id == second.header.run_id
    world.pass_time(600_000)
    run_now(world.service.redrive(run_id))
    world.pass_time(600_000)
    assert ran(world, first.header.run_id) == ["ship", "tell"]
    assert refusal(world, run_id, since="charge") == "already_redriven"


def test_it_goes_on_with_the_version_deployed_now_or_the_one_that_is_named() -> None:
    for version in ("", graph_of(FLOW).version):
        world, run_id = world_of()
        world.catalog.replace([graph_of(MENDED)])
        again = redriven(world, run_id, version=version)
        assert world.header(again).version == (version or graph_of(MENDED).version)


def test_a_version_without_the_step_or_that_is_not_there_is_refused() -> None:
    world, run_id = world_of()
    world.catalog.replace([graph_of(FLOW.replace("name: ship", "name: send"))])
    assert refusal(world, run_id) == "step_gone"
    assert refusal(world, run_id, version="sha256:none") == "unknown_version"


def test_a_run_that_completed_or_goes_on_is_refused() -> None:
    world = World(FLOW)
    run_id = world.start()
    assert refusal(world, run_id) == "not_ended"
    world.pass_time(600_000)
    assert refusal(world, run_id) == "completed"


def test_a_compensated_run_is_refused() -> None:
    saga = FLOW.replace("timeout: 1d", "failure_policy: compensate").replace(
        "run: python:shop.charge", "run: python:shop.charge, compensate: {run: python:shop.refund}"
    )
    world, run_id = world_of(saga)
    assert world.header(run_id).status == "compensated"
    assert refusal(world, run_id) == "was_compensated"


def test_a_run_whose_rollback_ended_midway_is_refused_with_what_is_so() -> None:
    """Its `charge` may or may not be undone, so a run that keeps it would be as wrong as one that does it again."""
    saga = FLOW.replace("timeout: 1d", "failure_policy: compensate").replace(
        "run: python:shop.charge", "run: python:shop.charge, compensate: {run: python:shop.refund}"
    )
    world = World(saga)
    world.steps.of.update({"ship": lambda call: fails(), "charge.compensate": lambda call: fails()})
    run_id = world.start()
    world.pass_time(600_000)
    assert world.header(run_id).status == "failed"
    with pytest.raises(Conflict) as refused:
        redriven(world, run_id)
    assert refused.value.code == "partly_undone"
    assert "ended midway: 0 steps are undone, and others are not (" in str(refused.value)


@pytest.mark.parametrize("end", ["cancel", "terminate"])
def test_a_run_that_was_ended_from_outside_goes_on_where_it_stood(end: str) -> None:
    world = World(FLOW.replace("run: python:shop.ship, retry: {max_retries: 1, initial_delay: 1s}", "sleep: 1h"))
    run_id = world.start()
    world.pass_time(60_000)
    run_now(getattr(world.service, end)(run_id))
    again = redriven(world, run_id)
    world.pass_time(3_500_000)
    assert world.header(again).status == "waiting"
    world.pass_time(200_000)
    assert ran(world, again) == ["tell"]


def test_a_run_that_was_cancelled_before_it_began_is_redriven_from_its_beginning() -> None:
    world = World(FLOW)
    run_id = world.start(create_only=True)
    run_now(world.service.cancel(run_id))
    again = redriven(world, run_id)
    world.pass_time(60_000)
    assert ran(world, again) == ["charge", "pack", "ship", "tell"]


def test_a_wait_that_timed_out_is_waited_for_again_from_now_on() -> None:
    wait = "name: ship, wait: {for: approval, timeout: 1h}"
    world = World(FLOW.replace("name: ship, run: python:shop.ship, retry: {max_retries: 1, initial_delay: 1s}", wait))
    run_id = world.start()
    world.pass_time(7_200_000)
    assert world.header(run_id).status == "timed_out"
    again = redriven(world, run_id)
    world.pass_time(3_000_000)
    run_now(world.service.approve(again))
    world.pass_time(60_000)
    assert world.header(again).status == "completed"


def test_the_time_of_the_run_begins_anew() -> None:
    world = World(FLOW.replace("timeout: 1d", "timeout: 1h").replace("run: python:shop.tell", "sleep: 45m"))
    luck = Luck(world, "ship")
    run_id = world.start(create_only=True)
    run_now(world.service.start_idle(run_id))
    world.pass_time(50 * 60_000)
    luck.broken.clear()
    again = redriven(world, run_id)
    world.pass_time(46 * 60_000)
    assert world.header(again).status == "completed"


def test_a_redriven_run_that_is_late_times_out() -> None:
    world = World(FLOW.replace("timeout: 1d", "timeout: 1h").replace("run: python:shop.tell", "sleep: 3h"))
    luck = Luck(world, "ship")
    run_id = world.start()
    world.pass_time(60_000)
    luck.broken.clear()
    again = redriven(world, run_id)
    world.pass_time(61 * 60_000)
    assert world.header(again).status == "timed_out"


def test_a_loop_goes_on_in_the_round_that_failed() -> None:
    world = World("""
workflow: flow
nodes:
  round: {run: python:shop.round, transitions: [{to: round, when: "state.round < 3"}, {to: end}]}
""")
    count: Counter[str] = Counter()

    def turn(call: Any) -> Any:
        count[call.run_id] += 1
        return fails() if sum(count.values()) == 2 else call.state.get("round", 0) + 1

    world.steps.of["round"] = turn
    run_id = world.start()
    world.pass_time(60_000)
    again = redriven(world, run_id)
    world.pass_time(60_000)
    assert (dict(count), world.token(again).scope) == ({run_id: 2, again: 2}, {"round": 3})


def test_a_join_that_completed_is_kept_with_its_branches() -> None:
    world, run_id = world_of(FORKED, broken=("ship",))
    again = redriven(world, run_id)
    world.pass_time(60_000)
    assert ran(world, again) == ["ship"]
    assert world.token(again).scope["join"] == world.token(run_id).scope["join"]
    kept = run_now(world.service.branches(again, "0/0", 0, 10))
    assert [branch.token.end.status for branch in kept if branch.token.end] == ["completed"] * 3


FORKED = """
workflow: flow
nodes:
  charge: {run: python:shop.charge, transitions: [{to: each, foreach: "[1, 2, 3]"}]}
  each: {run: python:shop.each, compensate: {run: python:shop.undo}, transitions: [{to: join}]}
  join: {fan_in: {merge: append}, transitions: [{to: ship}]}
  ship: {run: python:shop.ship}
"""


def test_what_the_branches_did_is_undone_when_the_redriven_run_is_compensated() -> None:
    world, run_id = world_of(FORKED)
    Luck(world, "ship")
    world.catalog.replace([graph_of(FORKED.replace("workflow: flow", "workflow: flow\nfailure_policy: compensate"))])
    again = redriven(world, run_id)
    world.pass_time(600_000)
    assert world.header(again).status == "compensated"
    assert ran(world, again) == ["ship", "each.compensate", "each.compensate", "each.compensate"]


def test_a_run_that_failed_in_a_fork_can_go_on_from_before_it() -> None:
    world, run_id = world_of(FORKED, broken=("each",))
    again = redriven(world, run_id, since="charge")
    world.pass_time(60_000)
    assert world.header(again).status == "completed"


def test_a_run_that_held_a_lock_is_refused() -> None:
    world, run_id = world_of(FLOW.replace("timeout: 1d", "lock: till"))
    assert refusal(world, run_id) == "held_lock"


def test_a_step_with_a_lock_takes_it_again() -> None:
    world, run_id = world_of(FLOW.replace("run: python:shop.ship", "run: python:shop.ship, lock: till"))
    again = redriven(world, run_id)
    world.pass_time(60_000)
    assert world.header(again).status == "completed"


def test_the_history_tells_where_the_new_run_begins() -> None:
    world, run_id = world_of()
    again = redriven(world, run_id)
    records = run_now(world.service.records(again))
    assert [record.kind for record in records] == [Kind.STEP, Kind.STEP, Kind.REDRIVEN]
    assert (records[-1].origin, records[-1].node) == (run_id, "ship")
    assert records[-1].error is not None
    assert records[-1].error.type == "Broken"


def test_subscribers_are_not_told_again_what_the_failed_run_told() -> None:
    world, run_id = world_of()
    again = redriven(world, run_id)
    world.pass_time(60_000)
    teller, told = Teller(world.store, world.store, world.store, world.blobs), list[str]()
    for saved in run_now(world.store.read_log(again, "0")):
        told += [one.entry.type for one in run_now(teller.appended(again, "0", saved.slot, saved.body))]
    assert [kind for kind in told if kind != "phase.changed"] == [
        "run.redriven",
        "step.completed",
        "step.completed",
        "run.completed",
    ]


def test_a_long_log_is_refused_before_anything_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    world, run_id = world_of(FORKED)
    monkeypatch.setattr("stepwell.runtime.calls.keeping.REDRIVE_WRITES", 4)
    world.store.calls.clear()
    assert refusal(world, run_id) == "log_too_long"
    assert not world.store.writes


def test_a_redrive_costs_two_writes_and_one_for_each_record_that_it_keeps() -> None:
    """The header and REDRIVEN; the definition is known. What a worker does then is as in any run."""
    world, run_id = world_of()
    world.store.calls.clear()
    redriven(world, run_id)
    assert world.store.writes == {"create_run": 1, "append": 3}
