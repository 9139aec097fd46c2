"""Pausing a run: it stops before its next step, keeps what ends meanwhile, and goes on where it was."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from stepwell import limits
from stepwell.engine.forks.branches import branch_id, fork_id
from stepwell.engine.records import Resumption, Status
from stepwell.errors import Conflict
from stepwell.runtime.calls.service import Service
from stepwell.runtime.log.messages import GoOn, Wake, from_json, to_json
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.ports import Lane, Pause
from stepwell.runtime.ports.headers import RunQuery
from stepwell.runtime.stores.answers import unpaused
from tests.runtime.kit import World, fails

FLOW = """
workflow: flow
timeline:
  - {name: charge, run: python:shop.charge}
  - {name: pack, run: python:shop.pack}
  - {name: ship, run: python:shop.ship, retry: {max_retries: 2, initial_delay: 60s, on: [step]}}
"""
ASKS = """
workflow: flow
timeline:
  - {name: charge, run: python:shop.charge}
  - {name: agree, wait: {for: approval, timeout: 1h}, branch: [{when: "true", skip_to: ship}]}
  - {name: ship, run: python:shop.ship}
"""
NAPS = """
workflow: flow
timeline:
  - {name: nap, sleep: 1h}
  - {name: ship, run: python:shop.ship}
"""
FORKED = """
workflow: flow
nodes:
  begin: {transitions: [{to: work, foreach: "{{ input.items }}", max_concurrency: 2}]}
  work: {run: python:shop.work, transitions: [{to: check}]}
  check: {run: python:shop.check, transitions: [{to: joined}]}
  joined: {fan_in: {merge: append, target: outs}}
"""
ABANDONS = """
workflow: flow
nodes:
  begin: {transitions: [{to: fast}, {to: nap}], fan_out: all}
  fast: {transitions: [{to: joined}]}
  nap: {sleep: 1h, transitions: [{to: ship}]}
  ship: {run: python:shop.ship, transitions: [{to: joined}]}
  joined: {fan_in: {policy: any, on_early_complete: abandon}, transitions: [{to: agree}]}
  agree: {wait: {for: approval, timeout: 30d}}
"""
DAG = """
workflow: flow
steps:
  - {name: a, run: python:shop.a, retry_policy: {max_retries: 0}}
  - {name: b, run: python:shop.b, depends_on: [a]}
  - {name: c, run: python:shop.c, depends_on: [a]}
  - {name: d, run: python:shop.d, depends_on: [b, c]}
"""
UNDONE = """
workflow: flow
compensate_on: [cancel]
timeline:
  - {name: charge, run: python:shop.charge, compensate: {run: python:shop.refund}}
  - {name: pack, run: python:shop.pack}
"""


def pause(world: World, run_id: str, reason: str = "the bank is down", who: str = "ana") -> None:
    run_now(world.service.pause(run_id, reason, who))


def unpause(world: World, run_id: str) -> None:
    run_now(world.service.unpause(run_id))


def ran(world: World) -> list[str]:
    return [call.node for call in world.steps.calls]


def paused_in(world: World, node: str, given: Any = None) -> str:
    """Starts a run, and pauses it while this step runs."""
    begun: list[Any] = []

    def step(call: Any) -> Any:
        begun.append(call)
        if len(begun) == 1:
            pause(world, call.run_id)
        return node

    world.steps.of[node] = step
    run_id = world.start(given=given)
    world.deliver()
    return run_id


def refusal(world: World, call: Any) -> str:
    with pytest.raises(Conflict) as refused:
        run_now(call)
    return refused.value.code


@pytest.mark.parametrize("again_in", ["pack", "ship"])
def test_a_copy_of_the_message_that_has_a_run_go_on_wakes_nobody_under_another_name(again_in: str) -> None:
    """Whoever runs the next step would not know of the other, and go on beside it to the end."""
    world = World(FLOW)
    run_id = paused_in(world, "charge")
    given = GoOn(run_id, world.header(run_id).paused_ms)
    woken: list[str] = []

    def goes_on(call: Any) -> None:
        run_now(world.parts.pausing.handle(given))
        sent = world.queue.receive((Lane.WORK,), world.clock.now_ms(), 0)
        if sent is not None:
            world.queue.delete(sent)
            woken.append(from_json(sent.message).id)

    world.steps.of[again_in] = goes_on
    unpause(world, run_id)
    world.deliver()
    last = world.token(run_id).last
    assert last is not None
    assert set(woken) <= {last.by}


def test_what_a_running_step_returns_is_kept_and_the_next_one_does_not_begin() -> None:
    world = World(FLOW)
    run_id = paused_in(world, "charge")
    assert ran(world) == ["charge"]
    assert world.token(run_id).steps["charge"].status == "completed"
    header = world.header(run_id)
    assert (header.status, header.resumes_as, header.paused_by) == (Status.PAUSED, "running", "ana")
    unpause(world, run_id)
    world.deliver()
    assert ran(world) == ["charge", "pack", "ship"]
    assert world.header(run_id).status is Status.COMPLETED


def test_a_run_that_goes_on_is_woken_once_so_that_its_next_step_runs_once() -> None:
    world = World(FLOW)
    run_id = paused_in(world, "charge")
    world.steps.of["pack"] = lambda _: world.deliver()  # other workers, while this one is at the step
    unpause(world, run_id)
    world.deliver()
    assert ran(world) == ["charge", "pack", "ship"]


def test_a_run_can_be_paused_as_often_as_one_likes() -> None:
    world = World(FLOW)
    run_id = paused_in(world, "charge")
    unpause(world, run_id)
    pause(world, run_id)
    world.deliver()
    assert ran(world) == ["charge"]
    unpause(world, run_id)
    world.deliver()
    assert ran(world) == ["charge", "pack", "ship"]


def test_a_pause_before_the_first_step_keeps_the_run_from_beginning() -> None:
    world = World(FLOW)
    run_id = world.start()
    pause(world, run_id)
    world.deliver()
    assert ran(world) == []
    assert world.header(run_id).resumes_as == "pending"
    unpause(world, run_id)
    world.deliver()
    assert world.header(run_id).status is Status.COMPLETED


def test_an_attempt_that_fails_while_paused_is_tried_again_afterwards_under_its_key() -> None:
    world = World(FLOW)

    def ship(call: Any) -> Any:
        if len([one for one in world.steps.calls if one.node == "ship"]) == 1:
            pause(world, call.run_id)
            return fails()
        return "ship"

    world.steps.of["ship"] = ship
    run_id = world.start()
    world.pass_time(600_000)
    assert Counter(ran(world))["ship"] == 1
    unpause(world, run_id)
    world.pass_time(600_000)
    assert Counter(ran(world))["ship"] == 2
    assert len({call.key for call in world.steps.calls if call.node == "ship"}) == 1
    assert world.header(run_id).status is Status.COMPLETED


def test_an_approval_is_taken_while_paused_and_acted_on_afterwards() -> None:
    world = World(ASKS)
    run_id = world.start()
    world.deliver()
    pause(world, run_id)
    assert world.header(run_id).resumes_as == "waiting"
    run_now(world.service.approve(run_id, {"ok": True}, "leo"))
    world.pass_time(7_200_000)  # past the wait's timeout
    assert ran(world) == ["charge"]
    assert world.header(run_id).status is Status.PAUSED
    unpause(world, run_id)
    world.deliver()
    assert ran(world) == ["charge", "ship"]


def test_a_wait_times_out_while_paused_and_the_run_goes_on_from_that() -> None:
    world = World(NAPS)
    run_id = world.start()
    world.deliver()
    pause(world, run_id)
    world.pass_time(7_200_000)
    assert (ran(world), world.header(run_id).status) == ([], Status.PAUSED)
    unpause(world, run_id)
    world.deliver()
    assert world.header(run_id).status is Status.COMPLETED


def test_a_run_that_goes_on_while_it_waits_is_shown_as_waiting() -> None:
    world = World(NAPS)
    run_id = world.start()
    world.deliver()
    pause(world, run_id)
    unpause(world, run_id)
    assert world.header(run_id).status is Status.WAITING
    world.pass_time(3_600_000)
    assert world.header(run_id).status is Status.COMPLETED


def test_no_branch_of_a_fork_begins_a_step_while_its_run_is_paused() -> None:
    """The branches that run are kept; those that wait for a place, and what follows in each, come afterwards."""
    world = World(FORKED)
    run_id = paused_in(world, "work", {"items": [1, 2, 3, 4, 5]})
    assert ran(world) == ["work"]
    unpause(world, run_id)
    world.deliver()
    assert Counter(ran(world)) == {"work": 5, "check": 5}
    assert world.header(run_id).status is Status.COMPLETED


def test_a_second_delivery_meets_the_mark_behind_the_record_although_its_process_has_an_older_header() -> None:
    """A process keeps what a fork's branches need of their parent, and with it the header of that time."""
    world = World(FORKED)
    run_id = paused_in(world, "work", {"items": [1]})
    branch = branch_id(fork_id("0", world.token(run_id).slot), 0)
    world.send(Lane.WORK, to_json(Wake(run_id, -1, branch)))
    world.deliver()
    assert ran(world) == ["work"]
    unpause(world, run_id)
    world.deliver()
    assert ran(world) == ["work", "check"]


def test_a_dag_stops_between_its_steps() -> None:
    world = World(DAG)
    run_id = paused_in(world, "a")
    assert ran(world) == ["a"]
    unpause(world, run_id)
    world.deliver()
    assert Counter(ran(world)) == dict.fromkeys("abcd", 1)
    assert world.header(run_id).status is Status.COMPLETED


def test_a_fork_of_several_pages_is_held_and_goes_on() -> None:
    world = World(FORKED.replace(", max_concurrency: 2", ""))
    run_id = paused_in(world, "work", {"items": list(range(230))})
    assert ran(world) == ["work"]
    unpause(world, run_id)
    world.deliver()
    assert Counter(ran(world)) == {"work": 230, "check": 230}
    assert world.header(run_id).status is Status.COMPLETED


def test_a_branch_whose_turn_came_while_its_run_was_paused_begins_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the branch that ended is in another page than the one that follows."""
    monkeypatch.setattr(limits, "PAGE_BRANCHES", 2)
    world = World(FORKED.replace("{to: work, f", "{to: check, f").replace("{to: check}", "{to: joined}")
                  .replace("  work: {run: python:shop.work, transitions: [{to: joined}]}\n", ""))  # fmt: skip
    run_id = paused_in(world, "check", {"items": [1, 2, 3, 4, 5]})
    assert ran(world) == ["check"]
    unpause(world, run_id)
    world.deliver()
    assert ran(world) == ["check"] * 5
    assert world.header(run_id).status is Status.COMPLETED


def test_a_fork_too_wide_for_one_call_is_held_by_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HELD_PAGES", 1)
    world = World(FORKED.replace(", max_concurrency: 2", "").replace("run: python:shop.work", "sleep: 1h"))
    run_id = world.start(given={"items": list(range(230))})
    world.deliver()
    pause(world, run_id)
    world.pass_time(7_200_000)
    assert ran(world) == []
    unpause(world, run_id)
    world.deliver()
    assert Counter(ran(world)) == {"check": 230}
    assert world.header(run_id).status is Status.COMPLETED


@pytest.mark.parametrize("end", [Service.cancel, Service.terminate])
def test_a_paused_run_can_be_ended(end: Any) -> None:
    world = World(FLOW)
    run_id = paused_in(world, "charge")
    assert run_now(end(world.service, run_id))
    world.deliver()
    assert world.header(run_id).status in {Status.CANCELLED, Status.FAILED}
    assert world.header(run_id).paused_ms == 0
    assert refusal(world, world.service.unpause(run_id)) == "run_ended"


def test_a_paused_run_that_is_cancelled_is_undone() -> None:
    world = World(UNDONE)
    run_id = paused_in(world, "charge")
    run_now(world.service.cancel(run_id))
    assert refusal(world, world.service.pause(run_id)) == "compensating"
    world.deliver()
    assert ran(world) == ["charge", "charge.compensate"]
    assert world.header(run_id).status is Status.COMPENSATED


def test_a_runs_own_timeout_ends_it_while_it_is_paused() -> None:
    world = World(f"{FLOW}timeout: 1h\n")
    run_id = paused_in(world, "charge")
    world.pass_time(7_200_000)
    assert world.header(run_id).status is Status.TIMED_OUT


def test_what_cannot_be_paused_or_unpaused_is_refused() -> None:
    world = World(FLOW)
    idle = world.start(create_only=True)
    assert refusal(world, world.service.pause(idle)) == "not_begun"
    run_id = world.start()
    assert refusal(world, world.service.unpause(run_id)) == "not_paused"
    world.deliver()
    assert refusal(world, world.service.pause(run_id)) == "run_ended"


def test_the_waits_of_branches_are_shown_behind_a_pause() -> None:
    world = World(FORKED.replace(", max_concurrency: 2", "").replace("run: python:shop.work", "sleep: 1h"))
    run_id = world.start(given={"items": [1, 2]})
    world.deliver()
    pause(world, run_id)
    assert unpaused(world.header(run_id)) is Status.WAITING
    world.pass_time(7_200_000)
    assert world.header(run_id).status is Status.PAUSED
    unpause(world, run_id)
    world.deliver()
    assert world.header(run_id).status is Status.COMPLETED


def test_a_second_pause_changes_nothing() -> None:
    world = World(FLOW)
    run_id = paused_in(world, "charge")
    since = world.header(run_id)
    world.clock.advance(5_000)
    pause(world, run_id, "another reason", "leo")
    assert world.header(run_id) == since


def test_paused_runs_are_listed_and_counted_as_such() -> None:
    world = World(NAPS)
    run_id = world.start()
    world.deliver()
    pause(world, run_id)
    page = run_now(world.service.runs(RunQuery(statuses=frozenset({Status.PAUSED}))))
    assert [one.run_id for one in page.headers] == [run_id]
    assert [row["status"] for row in run_now(world.parts.ports.runs.stats())] == ["paused"]


def test_the_sweeper_completes_a_pause_whose_caller_died() -> None:
    """The header says that the run is paused, and no branch has been told."""
    world = World(FORKED)

    def step(call: Any) -> Any:
        if ran(world).count("work") == 1:
            run_now(world.store.hold(world.header(call.run_id), Pause("ana", ""), world.clock.now_ms()))
            world.clock.advance(600_000)
            run_now(world.sweeper.sweep(60_000))
        return "work"

    world.steps.of["work"] = step
    world.start(given={"items": [1]})
    world.deliver()
    assert ran(world) == ["work"]


def test_a_branch_that_its_join_abandoned_goes_on_after_a_pause() -> None:
    world = World(ABANDONS)
    run_id = world.start()
    world.deliver()
    assert world.token(run_id).node == "agree"
    run_now(world.service.pause(run_id))
    world.pass_time(2 * limits.HOUR_MS)
    assert [call.node for call in world.steps.calls] == []
    run_now(world.service.unpause(run_id))
    world.deliver()
    assert [call.node for call in world.steps.calls] == ["ship"]


def test_an_event_for_a_paused_run_waits_for_it() -> None:
    world = World(ASKS.replace("for: approval", "for: event, name: paid"))
    run_id = world.start()
    world.deliver()
    pause(world, run_id)
    run_now(world.service.send_event("paid", {"n": 1}, run_id=run_id))
    world.deliver()
    assert world.token(run_id).resumption == Resumption("event", name="paid", payload={"n": 1}, event_id="evt_0002")
    assert ran(world) == ["charge"]
    unpause(world, run_id)
    world.deliver()
    assert ran(world) == ["charge", "ship"]
