"""Pausing a workflow: one write, however many runs it has; each run stops before its next step, and goes on later."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from stepwell import limits
from stepwell.definition.graph import Limit
from stepwell.engine.records import Status
from stepwell.errors import Conflict, InvalidInput, NotFound
from stepwell.limits import MINUTE_MS, PAUSES_KEPT_MS, UNPAUSED_RUNS
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.loop.stopping import Stopping
from stepwell.runtime.ports import EVERY
from stepwell.runtime.ports.headers import Header, RunPage, RunQuery
from tests.aws.kit import aws_world
from tests.contract.kit import STORES
from tests.lifecycle.test_pause import ASKS, FLOW, FORKED, NAPS, UNDONE, pause, ran, unpause
from tests.runtime.kit import World

OTHER = FLOW.replace("workflow: flow", "workflow: other")


def stop(world: World, workflow: str = "flow") -> None:
    run_now(world.parts.workflow_pauses.pause(workflow, "an incident", "ana"))


def go_on(world: World, workflow: str = "flow") -> None:
    run_now(world.parts.workflow_pauses.unpause(workflow))


def statuses(world: World, ids: list[str]) -> Counter[str]:
    return Counter(world.header(run_id).status.value for run_id in ids)


def test_to_pause_a_workflow_is_one_write_however_many_runs_it_has() -> None:
    world = World(ASKS)
    for _ in range(50):
        world.start()
    world.deliver()
    world.store.calls.clear()
    stop(world)
    assert world.store.calls == Counter(notes=1, put_note=1)
    assert world.deliver() == 0


def test_a_start_is_accepted_and_begins_nothing_before_the_workflow_goes_on() -> None:
    world = World(FLOW, OTHER)
    stop(world)
    run_id, other = world.start(), world.start("other")
    world.deliver()
    header = world.header(run_id)
    assert (header.status, header.resumes_as, header.pause_of, header.paused_by) == ("paused", "pending", "flow", "ana")
    assert world.header(other).status is Status.COMPLETED
    go_on(world)
    world.deliver()
    assert world.header(run_id).status is Status.COMPLETED
    assert Counter(ran(world)) == {"charge": 2, "pack": 2, "ship": 2}


def test_what_a_running_step_returns_is_kept_and_the_next_one_does_not_begin() -> None:
    world = World(FLOW)
    world.steps.of["charge"] = lambda call: stop(world)
    run_id = world.start()
    world.deliver()
    assert ran(world) == ["charge"]
    assert world.token(run_id).steps["charge"].status == "completed"
    go_on(world)
    world.deliver()
    assert ran(world) == ["charge", "pack", "ship"]


def test_waits_end_and_time_out_meanwhile_and_are_acted_on_afterwards() -> None:
    world = World(ASKS)
    approved, late = world.start(), world.start()
    world.deliver()
    stop(world)
    run_now(world.service.approve(approved, None, "leo"))
    world.pass_time(2 * 60 * MINUTE_MS)
    assert statuses(world, [approved, late]) == {"paused": 2}
    go_on(world)
    world.deliver()
    assert statuses(world, [approved, late]) == {"completed": 1, "timed_out": 1}


def test_a_run_that_waits_is_not_touched() -> None:
    """It is shown as waiting: only what would begin a step stops."""
    world = World(NAPS)
    run_id = world.start()
    world.deliver()
    stop(world)
    world.deliver()
    assert world.header(run_id).status is Status.WAITING
    world.pass_time(70 * MINUTE_MS)
    assert (world.header(run_id).status, ran(world)) == (Status.PAUSED, [])
    go_on(world)
    world.deliver()
    assert ran(world) == ["ship"]


def test_the_branches_of_a_fork_stop_and_all_go_on() -> None:
    world = World(FORKED)
    world.steps.of["work"] = lambda call: stop(world)
    run_id = world.start(given={"items": list(range(7))})
    world.deliver()
    assert set(ran(world)) == {"work"}
    assert world.header(run_id).status is Status.PAUSED
    world.steps.of["work"] = lambda call: "work"
    go_on(world)
    world.deliver()
    assert world.header(run_id).status is Status.COMPLETED
    assert Counter(ran(world)) == {"work": 7, "check": 7}


def test_a_run_that_stops_keeps_no_permit_of_its_last_step() -> None:
    """Else steps of other workflows would wait for it as long as the pause lasts."""
    throttled = FLOW.replace("run: python:shop.charge", "run: python:shop.charge, throttle: bank")
    world = World(throttled, throttled.replace("workflow: flow", "workflow: other"))
    world.catalog.limits = {"bank": Limit(1)}
    world.steps.of["charge"] = lambda call: stop(world) if call.workflow == "flow" else None
    stopped = world.start()
    world.deliver()
    other = world.start("other")
    world.deliver()
    assert [world.header(one).status.value for one in (stopped, other)] == ["paused", "completed"]


def test_a_worker_looks_at_most_once_in_five_seconds() -> None:
    """What a step pays for it: a query in that time, for all the runs that a worker works on."""
    world = World(FLOW)
    for _ in range(20):
        world.start()
    world.store.calls.clear()
    world.deliver()
    assert (len(ran(world)), world.store.calls["notes"]) == (60, 1)
    world.clock.advance(PAUSES_KEPT_MS)
    world.start()
    world.deliver()
    assert world.store.calls["notes"] == 2


def test_on_dynamodb_it_costs_a_write_unit_and_each_run_that_stops_five_more() -> None:
    """The header as it stops and as it goes on; the mark that says who rests, that it is woken, and its removal."""
    with aws_world(FLOW) as world:
        run_id = world.start()
        world.deliver()
        plain = Counter(world.meter.units)
        stop(world)
        assert world.meter.units - plain == Counter(NOTE=1)
        world.meter.units.clear()
        other = world.start()
        world.deliver()
        assert world.header(other).status is Status.PAUSED
        go_on(world)
        world.pass_time(2 * MINUTE_MS)
        assert {world.header(one).status for one in (run_id, other)} == {Status.COMPLETED}
        assert world.meter.units - plain == Counter(RUN=2, LOG=3, NOTE=1)


def test_a_pause_reaches_another_worker_within_five_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(FLOW)
    world.start()
    world.deliver()
    stop(world)
    kept = world.parts.worker._stopping._pauses
    monkeypatch.setattr(kept, "_kept", {})  # as another process has it, that read a moment ago
    monkeypatch.setattr(kept, "_kept_until_ms", world.clock.now_ms() + PAUSES_KEPT_MS)
    early = world.start()
    world.deliver()
    assert world.header(early).status is Status.COMPLETED
    world.clock.advance(PAUSES_KEPT_MS)
    late = world.start()
    world.deliver()
    assert world.header(late).status is Status.PAUSED


def test_all_workflows_can_be_paused_at_once_and_one_stays_so() -> None:
    world = World(FLOW, OTHER)
    stop(world, EVERY)
    stop(world, "other")
    ids = [world.start(), world.start("other")]
    world.deliver()
    assert statuses(world, ids) == {"paused": 2}
    go_on(world, EVERY)
    world.deliver()
    assert [world.header(one).status.value for one in ids] == ["completed", "paused"]
    go_on(world, "other")
    world.deliver()
    assert statuses(world, ids) == {"completed": 2}


def test_a_run_that_two_pauses_stop_goes_on_after_both_in_any_order() -> None:
    world = World(FLOW)
    stop(world)
    run_id = world.start()
    world.deliver()
    stop(world, EVERY)
    go_on(world)
    world.deliver()
    assert (world.header(run_id).status, world.header(run_id).pause_of) == (Status.PAUSED, EVERY)
    go_on(world, EVERY)
    world.deliver()
    assert world.header(run_id).status is Status.COMPLETED


def test_a_run_that_was_paused_by_itself_stays_paused() -> None:
    world = World(FLOW)
    own, adopted, freed = world.start(), world.start(), world.start()
    pause(world, own)
    stop(world)
    world.deliver()
    pause(world, adopted)
    with pytest.raises(Conflict, match="its workflow flow is paused"):
        unpause(world, freed)
    go_on(world)
    world.deliver()
    assert [world.header(one).status.value for one in (own, adopted, freed)] == ["paused", "paused", "completed"]
    unpause(world, own)
    unpause(world, adopted)
    world.deliver()
    assert statuses(world, [own, adopted]) == {"completed": 2}


def test_a_run_whose_own_pause_ends_first_stops_before_its_next_step() -> None:
    """The unpause reads no pause of a workflow: it ends the run's own, and its worker meets the other one."""
    world = World(FLOW)
    run_id = world.start()
    pause(world, run_id)
    stop(world)
    world.store.calls.clear()
    unpause(world, run_id)
    assert world.store.calls["notes"] == world.store.calls["get_note"] == 0
    world.deliver()
    header = world.header(run_id)
    assert (header.status, header.pause_of, ran(world)) == (Status.PAUSED, "flow", [])
    with pytest.raises(Conflict, match="its workflow flow is paused"):
        unpause(world, run_id)
    go_on(world)
    world.deliver()
    assert world.header(run_id).status is Status.COMPLETED


def test_a_run_that_stops_as_its_workflow_goes_on_goes_on_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker has read the pause, and writes the header when the stopped runs have been listed."""
    for looks_again in (True, False):
        world = World(FLOW)
        stop(world)
        run_id = world.start()

        def ends(*_: object, world: World = world) -> None:
            go_on(world)
            world.deliver()

        world.store.before["hold"] = ends
        if not looks_again:
            monkeypatch.setattr(Stopping, "goes_on", _rests)
        world.deliver()
        assert (world.header(run_id).status is Status.COMPLETED) is looks_again


async def _rests(self: Stopping, header: Header) -> None:
    return None


def test_more_runs_than_a_message_takes_all_go_on() -> None:
    world = World(FLOW)
    stop(world)
    ids = [world.start() for _ in range(2 * UNPAUSED_RUNS + 7)]
    world.deliver()
    go_on(world)
    world.deliver()
    assert statuses(world, ids) == {"completed": len(ids)}


def test_a_run_that_the_list_did_not_have_yet_goes_on_a_minute_later() -> None:
    """Lists are eventually consistent on DynamoDB."""
    world = World(FLOW)
    stop(world)
    run_id = world.start()
    world.deliver()
    listed = world.store.inner.list_runs

    async def late(query: RunQuery) -> RunPage:
        return RunPage(())

    world.store.inner.list_runs = late
    go_on(world)
    world.deliver()
    world.store.inner.list_runs = listed
    assert world.header(run_id).status is Status.PAUSED
    world.pass_time(MINUTE_MS)
    assert world.header(run_id).status is Status.COMPLETED


def test_a_run_that_nobody_had_go_on_is_found_by_the_sweeper() -> None:
    world = World(FLOW)
    stop(world)
    run_id = world.start()
    world.deliver()
    go_on(world)
    world.lose_messages()
    world.clock.advance(20 * MINUTE_MS)
    run_now(world.sweeper.sweep(10 * MINUTE_MS))
    world.deliver()
    assert world.header(run_id).status is Status.COMPLETED


def test_a_workflow_that_is_paused_anew_stays_so_for_late_messages() -> None:
    world = World(FLOW)
    stop(world)
    run_id = world.start()
    world.deliver()
    go_on(world)
    world.clock.advance(1)
    stop(world)
    world.pass_time(2 * MINUTE_MS)
    assert world.header(run_id).status is Status.PAUSED
    go_on(world)
    world.deliver()
    assert world.header(run_id).status is Status.COMPLETED


def test_cancel_ends_a_run_that_its_workflow_stopped_and_it_is_compensated() -> None:
    world = World(UNDONE)
    world.steps.of["charge"] = lambda call: stop(world)
    run_id = world.start()
    world.deliver()
    assert world.header(run_id).status is Status.PAUSED
    run_now(world.service.cancel(run_id, "enough", "ana"))
    world.deliver()
    assert world.header(run_id).status is Status.COMPENSATED
    assert ran(world) == ["charge", "charge.compensate"]


def test_a_second_pause_changes_nothing_and_only_what_is_paused_goes_on() -> None:
    world = World(FLOW)
    stop(world)
    again, is_old = run_now(world.parts.workflow_pauses.pause("flow", "another", "leo"))
    assert (again.by, again.reason, is_old) == ("ana", "an incident", True)
    go_on(world)
    with pytest.raises(Conflict, match="there is no pause of all workflows"):
        go_on(world, EVERY)
    for workflow, code in (("flow", "not_paused"), (EVERY, "not_paused"), ("nobody", "unknown_workflow")):
        with pytest.raises((Conflict, NotFound)) as refused:
            go_on(world, workflow)
        assert refused.value.code == code
    with pytest.raises(NotFound) as unknown:
        stop(world, "nobody")
    assert str(unknown.value.hint).startswith("deployed: ")
    assert "flow" in str(unknown.value.hint)
    with pytest.raises(InvalidInput):
        stop(world, "stepwell:batch")


def test_so_many_workflows_are_paused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stepwell.runtime.calls.workflow_pauses.WORKFLOW_PAUSES", 1)
    world = World(FLOW, OTHER)
    stop(world)
    with pytest.raises(Conflict, match="1 workflows are paused"):
        stop(world, "other")
    stop(world, EVERY)


def test_batches_go_on_while_all_workflows_are_paused() -> None:
    """To cancel, or to redrive, during an incident."""
    from tests.lifecycle.bulk import batch  # noqa: PLC0415 - it imports the world of redrives

    world = World(ASKS)
    ids = [world.start() for _ in range(3)]
    world.deliver()
    stop(world, EVERY)
    job = batch(world, "cancel")
    world.pass_time(MINUTE_MS)
    assert world.header(job).status is Status.COMPLETED
    assert statuses(world, ids) == {"cancelled": 3}


@pytest.mark.parametrize("store", ["memory", "sqlite", "dynamodb"])
def test_it_is_the_same_on_every_store(store: str, tmp_path: Path) -> None:
    adapter = next(one for one in STORES if one.name == store)
    with adapter.open(tmp_path) as opened:
        world = World(ASKS, FORKED.replace("workflow: flow", "workflow: forked"))
        world.store.inner = opened
        begun = [world.start() for _ in range(3)]
        world.deliver()
        stop(world, EVERY)
        ids = [*begun, *(world.start() for _ in range(3)), world.start("forked", {"items": [1, 2, 3]})]
        for run_id in begun:
            run_now(world.service.approve(run_id, None, "leo"))
        world.deliver()
        assert statuses(world, ids) == {"paused": 7}
        go_on(world, EVERY)
        world.pass_time(2 * limits.UNPAUSED_AGAIN_MS)
        assert statuses(world, ids) == {"completed": 4, "waiting": 3}
        assert Counter(ran(world)) == {"charge": 6, "ship": 3, "work": 3, "check": 3}
