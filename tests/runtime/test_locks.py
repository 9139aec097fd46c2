"""Locks: one holder at a time, in order of arrival, let go at any end; and whoever waits is shown who has it."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from unittest import mock

import pytest

from stepwell.api.runs.explain import explain
from stepwell.api.runs.histories import read_history
from stepwell.definition.graph import Json
from stepwell.engine.limits.locks import Claim
from stepwell.engine.records import Kind
from stepwell.errors import PortError
from stepwell.runtime.log.door import Unlimited
from stepwell.runtime.log.messages import Wake, to_json
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.ports import Lane
from stepwell.runtime.steps.port import StepCall
from stepwell.runtime.waits import locks
from stepwell.runtime.waits.locks import Turn
from tests.runtime.kit import World, fails

HOLD = """
workflow: flow
lock: "thread-{{ input.thread }}"
timeline:
  - {name: hold, wait: {for: approval, timeout: 1h}}
  - {name: last, run: python:m.last}
"""
SEVERAL = """
workflow: flow
lock: ["{{ input.first }}", "{{ input.second }}"]
timeline: [{name: hold, wait: {for: approval}}]
"""
EACH = """
workflow: flow
nodes:
  begin: {transitions: [{to: fill, foreach: "{{ input.items }}"}]}
  fill: {wait: {for: approval}, lock: oven, transitions: [{to: done}]}
  done: {fan_in: {policy: any}}
"""
FAILING = """
workflow: flow
nodes:
  work: {run: python:m.work, lock: printer, retry: {max_retries: 1, initial_delay: 5m, on: [step]}}
"""
SAGA = """
workflow: flow
lock: till
failure_policy: compensate
timeline:
  - {name: charge, run: python:m.charge, compensate: {run: python:m.refund}}
  - {name: ship, run: python:m.ship}
"""

STEPS = """
workflow: flow
nodes:
  work: {run: python:m.work, lock: printer, transitions: [{to: last}]}
  last: {run: python:m.last}
"""


def at_work(world: World, *given: Json) -> list[str]:
    """Runs of these inputs, as far as each comes, one after the other."""
    run_ids = []
    for one in given or ({"thread": 7}, {"thread": 7}, {"thread": 7}):
        run_ids.append(world.start(given=one))
        world.deliver()
    return run_ids


def holders(world: World, *run_ids: str) -> list[bool]:
    found = [world.token(run_id) for run_id in run_ids]
    return [token.locks is not None and token.locks.held for token in found]


def shown(world: World, run_id: str) -> Mapping[str, Json]:
    parked = world.token(run_id).parked
    return parked.data if parked and parked.locks else {}


def queue(world: World, name: str) -> list[str]:
    body = run_now(world.store.get_note(f"lock:{name}", "queue"))
    return [] if body is None else [run_id for run_id, _, _ in json.loads(body)]


def approve(world: World, run_id: str, wait: str = "") -> None:
    run_now(world.service.approve(run_id, wait=wait))
    world.deliver()


def told(world: World, run_id: str) -> list[str]:
    """The types of the run's entries that speak of locks."""
    page = run_now(read_history(world.service, run_id, "", 100))
    return [entry.type for entry in page.entries if entry.type.startswith("lock.")]


# -- whose turn it is


def test_runs_that_want_one_lock_hold_it_in_the_order_in_which_they_came() -> None:
    world = World(HOLD)
    first, second, third = at_work(world)
    assert holders(world, first, second, third) == [True, False, False]
    approve(world, first)
    assert holders(world, second, third) == [True, False]
    approve(world, second)
    assert holders(world, third) == [True]
    approve(world, third)
    assert queue(world, "thread-7") == []


def test_runs_that_want_other_locks_do_not_wait() -> None:
    world = World(HOLD)
    first, second = at_work(world, {"thread": 7}, {"thread": 8})
    assert holders(world, first, second) == [True, True]


def test_a_run_that_waits_for_a_lock_says_so_and_who_has_it() -> None:
    world = World(HOLD)
    first, second, third = at_work(world)
    header = world.header(third)
    assert (header.status, header.waiting_for) == ("waiting", "lock")
    assert shown(world, third) == {"locks": ["thread-7"], "lock": "thread-7", "owner": first, "ahead": 2}
    at = run_now(world.service.standing(third))
    why = explain(at, world.clock.now_ms(), None, {})
    assert f"for the lock thread-7, which {first} has, with 1 more in front of it." in why["why"]
    assert (why["nothing_can_wake_it"], why["wakers"][0]["what"]) == (False, "lock")
    assert world.header(second).waiting_for == "lock"


def test_nothing_of_a_run_that_waits_for_its_lock_has_run() -> None:
    world = World(HOLD)
    _, second, _ = at_work(world)
    assert world.token(second).steps == {}
    assert world.token(second).node == ""


def test_several_locks_are_taken_in_one_order_whatever_the_definition_says() -> None:
    world = World(SEVERAL)
    first, second = at_work(world, {"first": "a", "second": "b"}, {"first": "b", "second": "a"})
    assert holders(world, first, second) == [True, False]
    assert (queue(world, "a"), queue(world, "b")) == ([first, second], [first])
    approve(world, first)
    assert holders(world, second) == [True]
    approve(world, second)
    assert (queue(world, "a"), queue(world, "b")) == ([], [])


def test_a_run_that_holds_one_of_its_locks_waits_for_the_other() -> None:
    world = World(SEVERAL)
    both, other, last = at_work(
        world, {"first": "b", "second": "c"}, {"first": "a", "second": "b"}, {"first": "a", "second": "d"}
    )
    assert holders(world, both, other, last) == [True, False, False]
    assert shown(world, other)["owner"] == both
    assert shown(world, last)["owner"] == other
    approve(world, both)
    assert holders(world, other, last) == [True, False]
    approve(world, other)
    assert holders(world, last) == [True]


# -- any end


def test_a_cancelled_holder_lets_go() -> None:
    world = World(HOLD)
    first, second, _ = at_work(world)
    run_now(world.service.cancel(first))
    world.deliver()
    assert holders(world, second) == [True]


def test_a_run_that_is_cancelled_while_it_waits_leaves_the_queue() -> None:
    world = World(HOLD)
    first, second, third = at_work(world)
    run_now(world.service.cancel(second))
    assert queue(world, "thread-7") == [first, third]
    approve(world, first)
    assert holders(world, third) == [True]
    assert world.header(second).status == "cancelled"


@pytest.mark.parametrize("status", ["failed", "timed_out", "terminated"])
def test_a_holder_that_does_not_complete_lets_go(status: str) -> None:
    world = World(HOLD)
    first, second, _ = at_work(world)
    if status == "failed":
        world.steps.of["last"] = lambda _: fails()
        approve(world, first)
    elif status == "timed_out":
        world.pass_time(3_600_000)
    else:
        run_now(world.service.terminate(first))
        world.deliver()
    assert world.header(first).status == ("failed" if status == "terminated" else status)
    assert holders(world, second) == [True]


def test_a_run_whose_own_time_is_up_while_it_waits_leaves_the_queue() -> None:
    world = World(HOLD.replace("timeline:", "timeout: 10m\ntimeline:"))
    first, second, third = at_work(world)
    world.pass_time(600_000)
    assert [world.header(run_id).status for run_id in (first, second, third)] == ["timed_out"] * 3
    assert queue(world, "thread-7") == []


def test_a_run_is_undone_while_it_holds_its_locks() -> None:
    world = World(SAGA)
    seen: list[list[str]] = []
    world.steps.of["ship"] = lambda _: fails()
    world.steps.of["charge.compensate"] = lambda _: seen.append(queue(world, "till"))
    (run_id,) = at_work(world, {})
    assert (world.header(run_id).status, seen, queue(world, "till")) == ("compensated", [[run_id]], [])


def test_a_run_that_waits_for_its_locks_has_nothing_to_undo() -> None:
    world = World(HOLD.replace("timeline:", "compensate_on: [cancel]\ntimeline:"))
    first, second, _ = at_work(world)
    for run_id in (second, first):
        run_now(world.service.cancel(run_id))
        world.deliver()
    assert [world.header(run_id).status for run_id in (first, second)] == ["compensated", "cancelled"]


def test_a_run_lets_go_of_its_locks_and_says_how_many(caplog: pytest.LogCaptureFixture) -> None:
    world = World(SEVERAL)
    (run_id,) = at_work(world, {"first": "a", "second": "b"})
    with caplog.at_level(logging.INFO, "stepwell.locks"):
        approve(world, run_id)
    assert [record.getMessage() for record in caplog.records] == [f"{run_id} released 2 locks"]


def test_the_history_tells_of_locks() -> None:
    world = World(HOLD)
    first, second, third = at_work(world)
    approve(world, first)
    run_now(world.service.cancel(third))
    assert told(world, first) == ["lock.requested", "lock.granted", "lock.released"]
    assert told(world, second) == ["lock.requested", "lock.granted"]
    assert told(world, third) == ["lock.requested"]


# -- a step's lock


def test_branches_that_want_one_lock_run_one_after_the_other() -> None:
    world = World(EACH.replace("any", "all"))
    (run_id,) = at_work(world, {"items": [1, 2, 3]})
    for index in range(3):
        tokens = [one.token for one in run_now(world.service.branches(run_id, "", 0, 10))]
        assert [one.locks is not None and one.locks.held for one in tokens] == [at == index for at in range(3)]
        approve(world, run_id, f"0/0.{index}")
    assert (world.header(run_id).status, queue(world, "oven")) == ("completed", [])


def test_branches_that_nobody_waits_for_any_more_leave_the_queue() -> None:
    world = World(EACH)
    (run_id,) = at_work(world, {"items": [1, 2, 3]})
    approve(world, run_id, "0/0.0")
    assert (world.header(run_id).status, queue(world, "oven")) == ("completed", [])


def test_branches_of_a_cancelled_run_leave_the_queue() -> None:
    world = World(EACH)
    (run_id,) = at_work(world, {"items": [1, 2, 3]})
    run_now(world.service.cancel(run_id))
    world.deliver()
    assert queue(world, "oven") == []


def test_a_step_holds_its_lock_between_its_tries() -> None:
    world = World(FAILING)
    world.steps.of["work"] = lambda call: fails() if call.attempt == 1 else call.node
    first, second = at_work(world, {}, {})
    assert (queue(world, "printer"), world.header(second).waiting_for) == ([first, second], "lock")
    world.pass_time(299_000)
    assert len(world.steps.calls) == 1
    world.pass_time(10**6)
    assert [call.run_id for call in world.steps.calls] == [first, first, second, second]
    assert queue(world, "printer") == []


def test_a_step_that_has_its_lock_is_shown_as_running() -> None:
    world = World(FAILING)
    seen: list[str] = []
    world.steps.of["work"] = lambda call: seen.append(world.token(call.run_id).steps["work"].status)
    at_work(world, {})
    assert seen == ["running"]


# -- names that cannot be


@pytest.mark.parametrize("given", [None, "", "  ", True, {"a": 1}, "x" * 513, [], ["a", None], list("abcdefghijk")])
def test_what_cannot_be_a_lock_is_a_failure_of_the_run(given: Json) -> None:
    world = World("workflow: flow\nlock: '{{ input.name }}'\ntimeline: [{name: a, run: python:m.a}]")
    (run_id,) = at_work(world, {"name": given})
    token = world.token(run_id)
    assert (world.header(run_id).status, world.steps.calls) == ("failed", [])
    assert token.end is not None
    assert token.end.error is not None
    assert (token.end.error.category, token.slot) == ("validation", 0)


def test_what_cannot_be_a_steps_lock_is_a_failure_of_the_step() -> None:
    world = World("""
workflow: flow
nodes:
  a: {run: python:m.a, lock: "{{ input.name }}", transitions: [{to: b, when: "error.category == 'validation'"}]}
  b: {}
""")
    (run_id,) = at_work(world, {"name": None})
    assert (world.header(run_id).status, world.token(run_id).steps["a"].status) == ("completed", "failed")


def test_a_list_of_names_and_a_whole_number_are_locks() -> None:
    world = World("workflow: flow\nlock: '{{ input.name }}'\ntimeline: [{name: a, wait: {for: approval}}]")
    at_work(world, {"name": ["b", 5, "b"]})
    assert (len(queue(world, "b")), len(queue(world, "5"))) == (1, 1)


def test_a_lock_for_which_too_many_wait_lets_nobody_in() -> None:
    world = World(HOLD)
    with mock.patch.object(locks, "LOCK_QUEUE", 2):
        first, second, third = at_work(world)
    end = world.token(third).end
    assert end is not None
    assert end.error is not None
    assert end.error.type == "lock_queue_full"
    assert queue(world, "thread-7") == [first, second]


@pytest.mark.parametrize("lock", ["lock: till", ""])
def test_a_child_that_wants_what_its_parent_holds_fails_at_once(lock: str) -> None:
    node = "" if lock else ", lock: till"
    parent = f"workflow: flow\n{lock}\ntimeline: [{{name: pay, run: 'workflow:child', timeout: 1h{node}}}]"
    world = World(parent, "workflow: child\nlock: till\ntimeline: [{name: a, run: python:m.a}]")
    (run_id,) = at_work(world, {})
    end = world.token(run_id).end
    assert end is not None
    assert end.error is not None
    assert (end.error.data["error"]["type"], world.steps.calls) == ("lock_held_by_parent", [])
    assert queue(world, "till") == []


# -- what can go wrong


def test_a_wake_that_comes_twice_changes_nothing() -> None:
    world = World(HOLD)
    first, second, third = at_work(world)
    for run_id in (first, second, third):
        for slot in (-1, 0, 1):
            world.send(Lane.WORK, to_json(Wake(run_id, slot)))
    world.deliver()
    assert (holders(world, first, second, third), queue(world, "thread-7")) == ([True, False, False],
                                                                                [first, second, third])  # fmt: skip


def test_a_holder_that_dies_before_it_has_told_the_next_tells_it_when_it_comes_again() -> None:
    world = World(HOLD)
    first, second, _ = at_work(world)
    run_now(world.service.approve(first))
    world.store.before["put_note"] = lambda *_: world.store.before.update(get_run=_dies)
    with pytest.raises(PortError):
        world.deliver()
    assert (queue(world, "thread-7")[0], holders(world, second)) == (second, [False])
    world.pass_time(60_000)
    assert holders(world, second) == [True]


def _dies(*_: object) -> None:
    raise PortError("nobody answers")


def test_what_a_dead_worker_should_have_let_go_is_let_go_by_who_ends_the_run() -> None:
    world = World("""
workflow: flow
timeline:
  - {name: work, run: python:m.work, lock: printer}
  - {name: hold, wait: {for: approval}}
""")
    run_id = world.start()
    world.steps.of["work"] = lambda _: world.store.before.update(get_note=_dies)
    with pytest.raises(PortError):
        world.deliver()
    assert (world.token(run_id).node, queue(world, "printer")) == ("hold", [run_id])
    run_now(world.service.cancel(run_id))
    assert queue(world, "printer") == []


def test_a_claim_that_a_late_worker_left_behind_holds_nobody_up() -> None:
    world = World(HOLD)
    first, second = at_work(world, {"thread": 1}, {"thread": 2})
    approve(world, first)
    put = run_now(world.store.put_note("lock:thread-9", "queue", json.dumps([[first, "0", 0]]), None))
    (third,) = at_work(world, {"thread": 9})
    assert (put, holders(world, second, third)) == (True, [True, True])
    assert queue(world, "thread-9") == [third]


def test_a_worker_that_asks_too_late_takes_its_claim_back() -> None:
    """The run is cancelled between its record and its place in the queue."""
    world = World(HOLD)
    holder, run_id = at_work(world, {"thread": 7})[0], world.start(given={"thread": 7})
    world.store.before["put_note"] = lambda *_: run_now(world.service.cancel(run_id))
    world.deliver()
    assert (world.header(run_id).status, queue(world, "thread-7")) == ("cancelled", [holder])


def test_a_late_copy_of_a_wake_leaves_the_queue_that_it_joined_again() -> None:
    """The records are its own, so it goes on with them; but the run has ended since, and let its lock go."""
    world = World(HOLD)
    run_id = world.start(given={"thread": 7})

    def sooner(*_: object) -> None:
        run_now(world.parts.worker.handle(Wake(run_id, -1), Unlimited()))
        run_now(world.service.cancel(run_id))

    world.store.before["append"] = sooner
    world.deliver()
    assert (world.header(run_id).status, queue(world, "thread-7")) == ("cancelled", [])


def test_a_worker_whose_wait_another_has_ended_leaves_the_queue_that_it_joined_again() -> None:
    """The record is another wake's, by which the late one sees no more than that the lock was granted."""
    world = World(HOLD)
    run_id = world.start(given={"thread": 7})

    def sooner(*_: object) -> None:
        run_now(world.parts.worker.handle(Wake(run_id, 0), Unlimited()))
        run_now(world.service.cancel(run_id))

    world.store.before["put_note"] = sooner
    world.deliver()
    assert (world.header(run_id).status, queue(world, "thread-7")) == ("cancelled", [])


def test_who_was_let_go_is_not_put_back_by_a_late_change_of_the_queue() -> None:
    world = World(HOLD)
    first, second = at_work(world, {"thread": 7}, {"thread": 7})

    def sooner(*_: object) -> None:
        assert queue(world, "thread-7") == [first, second]
        run_now(world.store.drop_note("lock:thread-7", "queue"))

    run_now(world.service.approve(first))
    world.store.before["put_note"] = sooner
    with mock.patch.object(locks.Locks, "_see_to_first", side_effect=AssertionError("nobody is first")):
        world.deliver()
    assert queue(world, "thread-7") == []


def test_a_claim_that_others_keep_changing_comes_again() -> None:
    world = World(HOLD)
    (run_id,) = at_work(world, {"thread": 7})

    async def refuses(*_: object, **__: object) -> bool:
        return False

    with mock.patch.object(world.store.inner, "put_note", refuses), pytest.raises(PortError):
        run_now(world.parts.worker._performer.locks.claim(Claim("other", "0", 0), ["thread-7"]))
    assert holders(world, run_id) == [True]


def test_locks_can_be_taken_by_others_than_the_engine() -> None:
    world = World(HOLD)
    first, second = at_work(world, {"thread": 1}, {"thread": 2})
    locks_of = world.parts.worker._performer.locks
    claims = [Claim(run_id, "0", 0) for run_id in (first, second)]
    assert run_now(locks_of.claim(claims[0], ["till"])) == (Turn.MINE, "")
    assert run_now(locks_of.claim(claims[1], ["till"])) == (Turn.OTHERS, "till")
    assert run_now(locks_of.let_go(claims[0], ["till"])) == 1
    assert run_now(locks_of.claim(claims[1], ["till"])) == (Turn.MINE, "")


def test_an_idle_run_asks_for_its_lock_when_it_is_started() -> None:
    world = World(HOLD)
    run_id = world.start(given={"thread": 7}, create_only=True)
    world.deliver()
    assert queue(world, "thread-7") == []
    run_now(world.service.start_idle(run_id))
    world.deliver()
    assert queue(world, "thread-7") == [run_id]
    kinds = [record.kind for record in run_now(world.service.records(run_id))]
    assert kinds == [Kind.STARTED, Kind.WAITING, Kind.RESUMED, Kind.WAITING]


# -- the sweeper


def test_the_sweeper_leaves_a_healthy_queue_alone() -> None:
    world = World(HOLD)
    at_work(world)
    world.pass_time(1_200_000)
    assert run_now(world.sweeper.sweep(600_000)) == ()


def test_the_sweeper_helps_a_run_that_nobody_told_of_its_turn() -> None:
    world = World(HOLD)
    first, second, _ = at_work(world)
    run_now(world.service.cancel(first))
    world.lose_messages()
    world.pass_time(1_200_000)
    assert holders(world, second) == [False]
    assert [found.run_id for found in run_now(world.sweeper.sweep(600_000))] == [second]
    world.deliver()
    assert holders(world, second) == [True]


def test_a_lock_that_is_granted_too_late_is_let_go() -> None:
    """The run is cancelled, and lets go of what it has, right before its worker gets the lock."""
    world = World(HOLD)
    run_id = world.start(given={"thread": 7})
    world.store.before["put_note"] = lambda *_: run_now(world.service.cancel(run_id))
    world.deliver()
    assert (world.header(run_id).status, queue(world, "thread-7")) == ("cancelled", [])


def test_a_run_that_is_paused_at_its_step_lets_go_of_the_lock_when_that_ends() -> None:
    world = World(STEPS)
    runs = [world.start()]

    def work(call: StepCall) -> Json:
        if call.run_id == runs[0]:
            runs.extend(at_work(world, None))
            run_now(world.service.pause(runs[0]))
        return None

    world.steps.of["work"] = work
    world.deliver()
    assert [world.header(one).status for one in runs] == ["paused", "completed"]
    assert queue(world, "printer") == []


def test_a_claim_of_a_run_that_is_deleted_holds_up_nobody() -> None:
    """A late worker may have written the run's log anew, and taken the lock, after the deletion."""
    world = World(HOLD)
    claimed = json.dumps([["run_deleted", "0", 0]])
    run_now(world.store.put_note("lock:thread-7", "queue", claimed, None))
    (run_id,) = at_work(world, {"thread": 7})
    assert world.header(run_id).waiting_for == "approval"
    run_now(world.service.approve(run_id))
    world.deliver()
    assert run_now(world.store.get_note("lock:thread-7", "queue")) is None
