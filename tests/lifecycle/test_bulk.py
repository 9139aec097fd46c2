"""Actions on many runs: as a run of its own, with a canary, at a rate, and resumed after a kill."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from stepwell.engine.actions import Outcome
from stepwell.engine.records import Status
from stepwell.errors import Conflict, InvalidInput
from stepwell.runtime.calls.batching import Batch
from stepwell.runtime.calls.callbacks import wait_callback
from stepwell.runtime.calls.links import CallbackLink
from stepwell.runtime.log.messages import Wake, to_json
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.ports import Lane
from stepwell.runtime.ports.headers import RunQuery
from stepwell.runtime.starts.starting import Start
from stepwell.runtime.steps.port import StepCall
from tests.contract.kit import STORES
from tests.lifecycle.bulk import APPROVED, FLOW, WAITS, Mortal, batch, done, failed_world, pass_time, ran, report
from tests.runtime.kit import World, fails


def test_a_right_fix_redrives_all_and_runs_no_completed_step_again() -> None:
    world, luck, _ids = failed_world(300)
    luck.broken.clear()
    made = done(world, canary=True)
    assert (made["matched"], made["done"], made["refused"], made["stopped"]) == (300, 300, {}, None)
    assert len(ran(world, "charge")) == 300
    assert set(ran(world, "charge").values()) == {1}
    assert set(ran(world, "ship").values()) == {2}
    assert set(ran(world, "tell").values()) == {1}


def test_a_wrong_fix_is_noticed_by_the_first_run() -> None:
    world, _, _ = failed_world(300)
    made = done(world, canary=True)
    assert (made["done"], made["is_over"]) == (1, True)
    assert made["stopped"]["reason"] == "relapse"
    assert made["stopped"]["redriven_as"] != made["stopped"]["run_id"]


def test_a_fix_that_is_wrong_for_some_stops_after_at_most_eleven_runs() -> None:
    world, luck, _ids = failed_world(300)
    luck.broken.clear()
    unlucky = world.steps.of["ship"]
    world.steps.of["ship"] = lambda call: _broken(call) if call.input["n"] % 5 == 0 else unlucky(call)
    made = done(world, canary=True)  # the newest run is number 299
    assert made["stopped"]["reason"] == "relapse"
    assert made["done"] == 11


def _broken(call: StepCall) -> Outcome:
    return fails(category="transient")


def test_a_canary_goes_on_when_a_run_waits_at_a_later_step() -> None:
    """It has passed the step that failed, so it is not waited for."""
    world, luck, _ = failed_world(3, World(APPROVED))
    luck.broken.clear()
    job = batch(world, canary=True)
    world.pass_time(60_000)
    assert world.header(job).status == "completed"
    assert report(world, job)["done"] == 3


def test_a_canary_that_nobody_can_judge_stops_after_an_hour() -> None:
    """The run goes on at the wait that timed out, and waits there for days."""
    world = World(WAITS)
    for number in range(3):
        world.start("waits", {"n": number})
    world.pass_time(8 * 24 * 3_600_000)
    job = batch(world, workflow="waits", canary=True)
    world.pass_time(3_500_000)
    assert world.header(job).status == "waiting"
    world.pass_time(300_000)
    assert world.header(job).status == "completed"
    assert (report(world, job)["done"], report(world, job)["stopped"]["reason"]) == (1, "canary_open")


def test_a_canary_whose_error_type_has_blanks_knows_the_step_that_failed() -> None:
    """A run that waits at that step again has shown nothing yet. It counted as one that had moved on."""
    world = World("workflow: print\ntimeline: [{name: print, wait: {for: callback, timeout: 7d}}]\n")
    for _ in range(3):
        run_id = world.start("print")
        world.pass_time(1_000)
        callback = wait_callback(run_id, run_now(world.service.standing(run_id)).token)
        assert callback is not None
        link = CallbackLink(callback, world.clock.now_ms() + 3_600_000)
        run_now(world.service.callbacks.fail(link, {"type": "Out of paper", "message": "tray 2", "data": None}))
        world.pass_time(1_000)
        assert world.header(run_id).failure.endswith(" Out of paper print")
    job = batch(world, workflow="print", canary=True)
    world.pass_time(600_000)
    assert (world.header(job).status, report(world, job)["done"]) == ("waiting", 1)


def test_a_canary_redrives_another_run_in_place_of_one_that_is_deleted() -> None:
    """What is deleted cannot be judged. Before, its NotFound failed the batch."""
    world = World(WAITS)
    for number in range(3):
        world.start("waits", {"n": number})
    world.pass_time(8 * 24 * 3_600_000)
    job = batch(world, workflow="waits", canary=True)
    world.pass_time(10_000)
    (_, _, first), *_ = report(world, job)["watched"]
    run_now(world.parts.eraser.delete(first, force=True))
    world.pass_time(60_000)
    (_, _, second), *_ = report(world, job)["watched"]
    assert second != first
    assert (world.header(job).status, report(world, job)["done"]) == ("waiting", 2)


def test_a_canary_ends_when_the_last_of_its_runs_is_deleted() -> None:
    world = World(WAITS)
    world.start("waits", {"n": 1})
    world.pass_time(8 * 24 * 3_600_000)
    job = batch(world, workflow="waits", canary=True)
    world.pass_time(10_000)
    run_now(world.parts.eraser.delete(report(world, job)["watched"][0][2], force=True))
    world.pass_time(60_000)
    assert (world.header(job).status, report(world, job)["stopped"]) == ("completed", None)


def test_a_batch_can_be_cancelled_and_paused_like_any_run() -> None:
    world, luck, _ = failed_world(30)
    luck.broken.clear()
    job = batch(world, rate=1)
    world.pass_time(5_500)
    run_now(world.service.pause(job))
    world.pass_time(60_000)
    before = len(_all(world))
    assert 30 < before < 45
    run_now(world.service.unpause(job))
    world.pass_time(5_500)
    assert len(_all(world)) > before
    assert run_now(world.service.cancel(job))
    world.pass_time(60_000)
    assert len(_all(world)) < 60


def test_after_a_wrong_fix_the_right_one_redrives_the_rest_and_the_runs_that_failed_again() -> None:
    world, luck, _ids = failed_world(30)
    assert done(world, canary=True)["done"] == 1
    luck.broken.clear()
    made = done(world, canary=True)
    assert (made["done"], made["unchanged"], made["stopped"]) == (30, 1, None)
    ended = [world.header(run_id) for run_id in _all(world)]
    assert sum(one.status is Status.COMPLETED for one in ended) == 30
    assert set(ran(world, "charge").values()) == {1}


def _all(world: World) -> list[str]:
    page = run_now(world.service.runs(RunQuery("flow", limit=500)))
    return [header.run_id for header in page.headers]


def test_a_batch_that_is_killed_five_times_goes_on_and_runs_no_completed_step_again() -> None:
    world, luck, _ids = failed_world(300)
    luck.broken.clear()
    mortal = Mortal(world, 40, 300, 901, 1_502, 2_203)
    job = batch(world, canary=True)
    pass_time(world, 3 * 3_600_000)
    assert mortal.killed == 5
    assert world.header(job).status == "completed"
    assert report(world, job)["done"] == 300
    assert set(ran(world, "charge").values()) == {1}
    assert set(ran(world, "tell").values()) == {1}


@pytest.mark.slow
def test_five_thousand_failed_runs_are_redriven_by_a_batch_that_is_killed_five_times(tmp_path: Path) -> None:
    """The wrong fix costs eleven runs; with the right one all are redriven. On SQLite; a smaller one is above."""
    sqlite = next(one for one in STORES if one.name == "sqlite")
    with sqlite.open(tmp_path) as opened:
        world = World(FLOW, WAITS)
        world.store.inner = opened
        world, luck, _ids = failed_world(5_000, world)
        luck.broken.clear()
        unlucky = world.steps.of["ship"]
        world.steps.of["ship"] = lambda call: _broken(call) if call.input["n"] % 5 == 0 else unlucky(call)
        made = done(world, canary=True)  # the newest run is number 4,999
        assert (made["stopped"]["reason"], made["done"]) == ("relapse", 11)
        world.steps.of["ship"] = unlucky
        mortal = Mortal(world, 40, 5_000, 15_001, 25_002, 36_003)
        job = batch(world, canary=True)
        pass_time(world, 3 * 3_600_000)
        assert mortal.killed == 5
        made = report(world, job)
        assert (world.header(job).status, made["stopped"], made["refused"]) == ("completed", None, {})
        assert set(ran(world, "charge").values()) == {1}
        assert set(ran(world, "tell").values()) == {1}
        assert len(ran(world, "tell")) == 5_000


@pytest.mark.parametrize("store", ["sqlite", "dynamodb"])
def test_it_is_the_same_on_other_stores(store: str, tmp_path: Path) -> None:
    adapter = next(one for one in STORES if one.name == store)
    with adapter.open(tmp_path) as opened:
        world = World(FLOW, WAITS)
        world.store.inner = opened
        world, luck, _ = failed_world(25, world)
        assert done(world, canary=True)["done"] == 1
        luck.broken.clear()
        mortal = Mortal(world, 60, 250)
        job = batch(world, canary=True)
        pass_time(world, 3_600_000)
        assert mortal.killed == 2
        assert report(world, job)["done"] == 25
        assert set(ran(world, "charge").values()) == {1}
        assert set(ran(world, "tell").values()) == {1}


@pytest.mark.parametrize("rate", [20, 2.5, 0.5])
def test_a_rate_is_kept(rate: float) -> None:
    world, luck, _ids = failed_world(60)
    luck.broken.clear()
    begun_ms = world.clock.now_ms()
    assert done(world, rate=rate)["done"] == 60
    times = sorted(world.header(run_id).created_ms for run_id in _all(world))[60:]
    assert len(times) == 60
    for first in range(60):  # in no second more than the rate allows, and in the whole not much fewer
        within = sum(times[first] <= one < times[first] + 10_000 for one in times)
        assert within <= rate * 10 + max(rate, 1)
    assert times[-1] - begun_ms <= 60 / rate * 1_000 * 1.05


def test_a_dry_run_counts_and_does_nothing() -> None:
    world, _, ids = failed_world(30)
    before = world.store.writes["append"]
    made = done(world, canary=True, dry_run=True)
    assert (made["matched"], made["done"]) == (30, 0)
    assert made["first"] == ids[:-11:-1]
    assert len(_all(world)) == 30
    assert world.store.writes["append"] - before == 2  # its own step, and its end


@pytest.mark.parametrize(("action", "status"), [("cancel", "cancelled"), ("terminate", "failed"), ("pause", "paused")])
def test_open_runs_are_ended_or_paused_together(action: str, status: str) -> None:
    world, _, _ = failed_world(3)
    ids = [world.start("waits", {"n": n}) for n in range(120)]
    world.pass_time(1_000)
    made = done(world, action, workflow="waits", reason="an incident", by="ana")
    assert made["done"] == 120
    assert {world.header(run_id).status for run_id in ids} == {status}
    if action == "pause":
        assert {world.header(run_id).pause_reason for run_id in ids} == {"an incident"}
        assert done(world, "unpause", workflow="waits")["done"] == 120
        assert {world.header(run_id).status for run_id in ids} == {"waiting"}


def test_a_filter_narrows_by_tag_failure_and_time() -> None:
    world, _luck, ids = failed_world(30)
    mark = world.header(ids[0]).failure.partition(" ")[0]
    assert done(world, tag=["customer", "c1"], dry_run=True)["matched"] == 10
    assert done(world, workflow="", failure=mark, dry_run=True)["matched"] == 30
    assert done(world, workflow="", failure="other", dry_run=True)["matched"] == 0
    assert done(world, since_ms=world.clock.now_ms(), dry_run=True)["matched"] == 0


def test_runs_that_refuse_are_counted_by_the_reason() -> None:
    world, _, _ids = failed_world(3)
    waiting = world.start("waits", {"n": 1})
    world.pass_time(1_000)
    made = done(world, workflow="waits", statuses=["waiting"])
    assert (made["done"], made["refused"], made["first_refused"]) == (0, {"not_ended": 1}, [waiting])


def test_a_batch_leaves_itself_and_other_batches_alone() -> None:
    world, _, _ = failed_world(3)
    first = batch(world, "redrive", rate=0.01)
    world.pass_time(1_000)
    assert world.header(first).status == "waiting"
    assert done(world, "cancel", workflow="", statuses=["running", "waiting", "pending"])["matched"] == 0
    assert world.header(first).status == "completed"


def test_a_batch_without_a_filter_is_refused_and_so_is_a_canary_of_a_cancel() -> None:
    world, _, _ = failed_world(1)
    with pytest.raises(InvalidInput, match="names no runs"):
        run_now(world.service.batch(Batch("cancel")))
    with pytest.raises(InvalidInput, match="canary is for redrive"):
        run_now(world.service.batch(Batch("cancel", "flow", canary=True)))


def test_nobody_starts_the_workflow_of_batches_but_a_batch() -> None:
    world, _, _ = failed_world(1)
    with pytest.raises(Conflict, match="internal"):
        run_now(world.service.start(Start("stepwell:batch", {})))


def test_a_repeated_key_finds_the_first_batch() -> None:
    world, _, _ = failed_world(1)
    first, second = (run_now(world.service.batch(Batch("redrive", "flow"), key="once")) for _ in range(2))
    assert (first.created, second.created) == (True, False)
    assert first.header.run_id == second.header.run_id


def test_a_run_of_that_workflow_that_no_batch_call_made_fails() -> None:
    """A durable function may start any workflow as a child."""
    world = World(FLOW)
    header = replace(world.header(batch(world)), run_id="odd", input={"action": "explode"})
    run_now(world.store.create_run(header))
    run_now(world.parts.ports.queue.send(Lane.WORK, to_json(Wake("odd", -1))))
    world.pass_time(1_000)
    assert world.header("odd").failure.split(" ")[1] == "bad_batch"
