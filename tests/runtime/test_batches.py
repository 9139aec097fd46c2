"""`durability: batch`: several small steps in one append. What a crash repeats, and what closes a batch early."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from stepwell.definition.graph import Step
from stepwell.engine.actions import Outcome
from stepwell.engine.entries import Entry
from stepwell.engine.records import ROOT, Kind, Record, Status
from stepwell.engine.retry import Policy
from stepwell.engine.stored.token_batches import decode_records, is_batch
from stepwell.errors import LeaseLost, PortError
from stepwell.limits import BATCH_BYTES, BATCH_OPEN_MS, BATCH_RECORDS
from stepwell.local.database import Database
from stepwell.local.sqlite_store import SqliteStore
from stepwell.memory.inbox import ALL_LANES
from stepwell.runtime.calls.exporting import read_export
from stepwell.runtime.dispatch import dispatch
from stepwell.runtime.log.door import Unlimited
from stepwell.runtime.log.logbook import Logbook
from stepwell.runtime.log.messages import Wake, to_json
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.notify.telling import Teller
from stepwell.runtime.steps.port import StepCall
from tests.lifecycle.kills import Killer
from tests.runtime.kit import World, fails


def chain(count: int, durability: str = "batch", **of: str) -> str:
    """A timeline of steps; `of`: what some of them are besides, or are instead."""
    lines = [f"  - {{name: s{n}, {of.get(f's{n}', f'run: python:m.s{n}')}}}" for n in range(count)]
    return f"workflow: flow\ndurability: {durability}\ntimeline:\n" + "\n".join(lines)


def done(text: str) -> tuple[World, str]:
    world = World(text)
    run_id = world.start()
    world.deliver()
    return world, run_id


def appended(world: World, run_id: str, token: str = ROOT) -> list[list[int]]:
    """The slots of each append of a token."""
    return [[one.slot for one in decode_records(saved.body)] for saved in run_now(world.store.read_log(run_id, token))]


def records(world: World, run_id: str) -> list[Record]:
    return list(run_now(logbook(world).history(run_id, ROOT, -1, None)))


def logbook(world: World) -> Logbook:
    """One that has nothing in mind."""
    return Logbook(world.parts.ports, world.catalog)


def history(world: World, run_id: str) -> list[tuple[str, str, str, Any]]:
    async def all_of() -> list[Entry]:
        return [one async for one in (await world.service.narrator(run_id)).entries()]

    return [(one.id, one.type, one.token, one.data) for one in run_now(all_of())]


def called(world: World) -> list[str]:
    return [call.node for call in world.steps.calls]


class Again(Unlimited):
    """The budget of a message that came before."""

    def is_first(self) -> bool:
        return False


# -- the same as without, in fewer writes


@pytest.mark.parametrize(("steps", "appends"), [(1, 1), (3, 1), (10, 1), (11, 2), (100, 10)])
def test_ten_steps_are_one_append(steps: int, appends: int) -> None:
    world, run_id = done(chain(steps))
    assert world.header(run_id).status is Status.COMPLETED
    assert world.store.calls["append"] == appends
    assert max(len(slots) for slots in appended(world, run_id)) <= BATCH_RECORDS


@pytest.mark.parametrize("steps", [2, 12, 30])
def test_a_run_is_told_as_one_whose_steps_were_written_one_by_one(steps: int) -> None:
    (plain, first), (batched, second) = done(chain(steps, "step")), done(chain(steps))
    assert history(batched, second)[1:] == history(plain, first)[1:]  # the first has the version
    assert batched.token(second).scope == plain.token(first).scope
    assert batched.token(second).calls == plain.token(first).calls == steps
    assert [call.key for call in batched.steps.calls] == [call.key for call in plain.steps.calls]
    assert exported(batched, second)[1:] == exported(plain, first)[1:]
    assert told(batched, second) == told(plain, first)


def exported(world: World, run_id: str, page: int = 1_000) -> list[Any]:
    items: list[Any] = []
    cursor = ""
    while not items or cursor:
        found = run_now(read_export(world.parts.ports, world.header(run_id), cursor, page))
        items, cursor = [*items, *found.items], found.next_cursor
    return items


def told(world: World, run_id: str) -> list[Any]:
    """What subscribers get, of a stream that has nothing in mind."""
    found: list[Any] = []
    for saved in run_now(world.store.read_log(run_id, "0")):
        teller = Teller(world.store, world.store, world.store, world.blobs, remembered=1)
        found += [one.entry for one in run_now(teller.appended(run_id, "0", saved.slot, saved.body))]
    return found


@pytest.mark.parametrize("page", [1, 3, 7])
def test_an_export_may_be_cut_within_a_batch(page: int) -> None:
    world, run_id = done(chain(25))
    assert exported(world, run_id, page) == exported(world, run_id)


def test_a_history_may_be_read_from_any_slot_and_up_to_any_limit() -> None:
    world, run_id = done(chain(25))
    for after in range(-1, 26):
        for limit in (1, 2, 10, 11, None):
            found = run_now(logbook(world).history(run_id, "0", after, limit))
            last = 25 if limit is None else min(after + 1 + limit, 25)
            assert [one.slot for one in found] == list(range(after + 1, last)), (after, limit)


def test_the_ledger_counts_a_batch_as_the_item_that_it_is() -> None:
    (plain, first), (batched, second) = done(chain(10, "step")), done(chain(10))
    one, other = (run_now(world.service.surveyed_with_cost(run_now(world.service.standing(run_id))))[1]
                  for world, run_id in ((plain, first), (batched, second)))  # fmt: skip
    assert one.write_units - other.write_units >= 8
    assert (other.records, other.steps) == (one.records, one.steps) == (10, 10)


def test_a_run_that_failed_in_a_batch_is_redriven_from_the_step_that_failed() -> None:
    world = World(chain(6))
    world.steps.of["s4"] = lambda call: fails()
    run_id = world.start()
    world.deliver()
    assert world.header(run_id).status is Status.FAILED
    del world.steps.of["s4"]
    world.steps.calls.clear()
    again = run_now(world.service.redrive(run_id)).header.run_id
    world.deliver()
    assert called(world) == ["s4", "s5"]
    assert world.header(again).status is Status.COMPLETED
    assert {one.together for one in records(world, again)[:4]} == {0}


# -- what closes a batch


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ("run: python:m.s2, at_most_once: true", [[0, 1, 2], [3], [4, 5]]),  # its beginning, its end, the rest
        ("sleep: 5s", [[0, 1, 2], [3], [4, 5, 6]]),
        ("run: python:m.s2, compensate: {run: python:m.undo}", [[0, 1, 2], [3, 4]]),
    ],
)
def test_what_others_may_rely_on_is_written_with_what_comes_before_it(what: str, expected: list[list[int]]) -> None:
    world = World(chain(5, s2=what))
    run_id = world.start()
    world.pass_time(10_000)
    assert world.header(run_id).status is Status.COMPLETED
    assert appended(world, run_id) == expected


def test_a_step_that_runs_at_most_once_begins_after_all_before_it_are_written() -> None:
    world = World(chain(4, s2="run: python:m.s2, at_most_once: true"))
    seen: list[list[list[int]]] = []
    world.steps.of["s2"] = lambda call: seen.append(appended(world, call.run_id))
    world.start()
    world.deliver()
    assert seen == [[[0, 1, 2]]]


def test_a_failed_try_is_written_with_what_comes_before_it() -> None:
    world = World(chain(4, s2="run: python:m.s2, retry: {max_retries: 1, initial_delay: 5s}"))
    world.steps.of["s2"] = lambda call: fails("ConnectionError", "transient") if call.attempt == 1 else 1
    run_id = world.start()
    world.pass_time(10_000)
    assert appended(world, run_id) == [[0, 1, 2], [3, 4]]
    assert called(world) == ["s0", "s1", "s2", "s2", "s3"]


def test_a_batch_is_closed_by_its_age_before_the_next_step_begins() -> None:
    world = World(chain(4))
    world.steps.of["s1"] = lambda call: world.clock.set(world.clock.now_ms() + BATCH_OPEN_MS)
    run_id = world.start()
    world.deliver()
    assert appended(world, run_id) == [[0, 1], [2, 3]]


def test_a_batch_does_not_wait_for_a_long_step() -> None:
    world = World(chain(4))
    seen: list[list[list[int]]] = []
    world.steps.of["s2"] = lambda call: takes_long(world, call, seen)
    run_id = world.start()
    world.deliver()
    assert seen == [[[0, 1]]]
    assert appended(world, run_id) == [[0, 1], [2], [3]]
    assert called(world) == ["s0", "s1", "s2", "s3"]


def takes_long(world: World, call: StepCall, seen: list[list[list[int]]]) -> None:
    assert call.late is not None
    assert call.late_ms <= BATCH_OPEN_MS
    world.clock.set(world.clock.now_ms() + call.late_ms)
    run_now(call.late())
    seen.append(appended(world, call.run_id))


def test_a_large_result_closes_the_batch() -> None:
    world = World(chain(6))
    world.steps.of["s1"] = lambda call: "x" * BATCH_BYTES
    run_id = world.start()
    world.deliver()
    assert appended(world, run_id) == [[0, 1], [2, 3, 4, 5]]


def test_a_worker_hands_over_after_its_batch_is_written() -> None:
    class Short(Unlimited):
        def __init__(self) -> None:
            self.left = 6

        def left_ms(self) -> int | None:
            self.left -= 1
            return None if self.left > 0 else 0

    world = World(chain(6))
    run_id = world.start()
    first = world.queue.receive(ALL_LANES, world.clock.now_ms(), 60_000)
    assert first is not None
    run_now(dispatch(world.parts, first.lane, first.message, Short()))
    world.queue.delete(first)
    before = len(called(world))
    assert [slot for slots in appended(world, run_id) for slot in slots] == list(range(before))
    world.deliver()
    assert called(world) == [f"s{number}" for number in range(6)]
    assert world.header(run_id).status is Status.COMPLETED


def test_branches_of_a_fork_gather_too_and_arrive_once_they_are_written() -> None:
    world, run_id = done("""
workflow: flow
durability: batch
nodes:
  begin: {transitions: [{to: a, foreach: "{{ [1, 2, 3] }}"}]}
  a: {run: python:m.a, transitions: [{to: b}]}
  b: {run: python:m.b, transitions: [{to: gather}]}
  gather: {fan_in: {policy: all}, transitions: [{to: last}]}
  last: {run: python:m.last}
""")
    assert world.header(run_id).status is Status.COMPLETED
    assert [appended(world, run_id, f"0/0.{index}") for index in range(3)] == [[[0, 1]]] * 3
    assert Counter(called(world)) == {"a": 3, "b": 3, "last": 1}


# -- a cancel, a pause, another worker


def test_a_cancel_ends_the_run_and_what_waited_is_gone() -> None:
    world = World(chain(4))
    world.steps.of["s2"] = lambda call: run_now(world.service.cancel(call.run_id))
    run_id = world.start()
    world.deliver()
    assert world.header(run_id).status is Status.CANCELLED
    assert [one.kind for one in records(world, run_id)] == [Kind.ENDED]
    assert called(world) == ["s0", "s1", "s2", "s3"]


@pytest.mark.parametrize("is_late", [False, True])
def test_a_cancel_during_a_long_step_is_met_while_it_runs(is_late: bool) -> None:
    world = World(chain(4))

    def cancelled(call: StepCall) -> None:
        run_now(world.service.cancel(call.run_id))
        if is_late and call.late:
            run_now(call.late())

    world.steps.of["s1"] = cancelled
    run_id = world.start()
    world.deliver()
    assert world.header(run_id).status is Status.CANCELLED
    assert [one.kind for one in records(world, run_id)] == [Kind.ENDED]
    assert called(world) == (["s0", "s1"] if is_late else ["s0", "s1", "s2", "s3"])


def test_a_pause_keeps_what_was_done_and_stops_at_the_end_of_the_batch() -> None:
    world = World(chain(14))
    world.steps.of["s2"] = lambda call: run_now(world.service.pause(call.run_id))
    run_id = world.start()
    world.deliver()
    assert world.header(run_id).status is Status.PAUSED
    assert len(called(world)) == BATCH_RECORDS
    assert appended(world, run_id) == [list(range(BATCH_RECORDS))]
    run_now(world.service.unpause(run_id))
    world.deliver()
    assert world.header(run_id).status is Status.COMPLETED
    assert called(world) == [f"s{number}" for number in range(14)]


def test_a_pause_while_a_long_step_runs_stops_the_run_behind_it_though_nothing_was_left_to_write() -> None:
    world = World(chain(8))

    def paused(call: StepCall) -> None:
        assert call.late is not None
        run_now(call.late())
        world.clock.set(world.clock.now_ms() + BATCH_OPEN_MS)
        run_now(world.service.pause(call.run_id))

    world.steps.of["s1"] = paused
    run_id = world.start()
    world.deliver()
    assert world.header(run_id).status is Status.PAUSED
    assert called(world) == ["s0", "s1"]


@pytest.mark.parametrize("of", ["the run", "its workflow"])
def test_a_pause_that_is_met_while_a_long_step_runs_stops_the_run_behind_it(of: str) -> None:
    world = World(chain(8))

    def paused(call: StepCall) -> None:
        pauses = world.parts.workflow_pauses
        run_now(world.service.pause(call.run_id) if of == "the run" else pauses.pause("flow", "", ""))
        assert call.late is not None
        run_now(call.late())

    world.steps.of["s1"] = paused
    run_id = world.start()
    world.deliver()
    assert world.header(run_id).status is Status.PAUSED
    assert called(world) == ["s0", "s1"]
    run_now(world.service.unpause(run_id) if of == "the run" else world.parts.workflow_pauses.unpause("flow"))
    world.deliver()
    assert world.header(run_id).status is Status.COMPLETED
    assert called(world) == [f"s{number}" for number in range(8)]


def test_a_twin_that_was_first_has_its_batch_stand() -> None:
    """Both got such a message: what the slower one did is dropped, and it goes on from where the other was."""
    world = World(chain(5))
    run_id = world.start()
    message = world.queue.receive(ALL_LANES, world.clock.now_ms(), 0)
    assert message is not None

    def twin(call: StepCall) -> int:
        del world.steps.of["s2"]
        run_now(dispatch(world.parts, message.lane, to_json(Wake(run_id, -1)), Unlimited()))
        return 1

    world.steps.of["s2"] = twin
    world.deliver(Unlimited())
    assert world.header(run_id).status is Status.COMPLETED
    assert appended(world, run_id) == [[0, 1, 2, 3, 4]]
    assert records(world, run_id)[2].output == "s2"


def test_a_twin_that_fell_behind_runs_no_step_again_when_its_batch_is_refused() -> None:
    """
    one      s0 ── s1 ── imports s2 ─────────────────────── its batch is due: refused, and all that follows stands too
    another              └─ s0 ── s1 ── s2 ── s3 ── ended ──┘
    """
    world = World(chain(4))
    run_id = world.start()
    message = world.queue.receive(ALL_LANES, world.clock.now_ms(), 0)
    assert message is not None
    plain = world.steps.policy

    def imports(step: Step) -> Policy:
        if step.run.endswith("s2") and len(world.steps.calls) == 2:
            world.clock.advance(BATCH_OPEN_MS)
            run_now(dispatch(world.parts, message.lane, message.message, Again()))
        return plain(step)

    with mock.patch.object(world.steps, "policy", imports):
        world.deliver(Unlimited())
    assert world.header(run_id).status is Status.COMPLETED
    assert [call.node for call in world.steps.calls] == ["s0", "s1", "s0", "s1", "s2", "s3"]


def test_a_lost_lease_writes_nothing() -> None:
    class Lost(Unlimited):
        def holds(self) -> bool:
            return False

    world = World(chain(3))
    run_id = world.start()
    message = world.queue.receive(ALL_LANES, world.clock.now_ms(), 0)
    assert message is not None
    with pytest.raises(LeaseLost):
        run_now(dispatch(world.parts, message.lane, message.message, Lost()))
    assert appended(world, run_id) == []
    world.deliver()
    assert world.header(run_id).status is Status.COMPLETED


# -- crashes


def test_a_message_that_comes_again_has_its_steps_written_one_by_one() -> None:
    """So a step that kills its worker is known by its slot."""
    world = World(chain(4))
    run_id = world.start()
    message = world.queue.receive(ALL_LANES, world.clock.now_ms(), 0)
    assert message is not None
    run_now(dispatch(world.parts, message.lane, message.message, Again()))
    assert appended(world, run_id) == [[0], [1], [2], [3]]


@pytest.mark.parametrize("is_written", [False, True])
def test_an_append_that_did_not_answer_while_a_step_ran_repeats_no_step(is_written: bool) -> None:
    world = World(chain(4))

    def no_answer(*args: Any) -> None:
        if is_written:
            run_now(world.store.inner.append(*args))
        raise PortError("no answer")

    def takes_long(call: StepCall) -> None:
        world.store.before["append"] = no_answer
        assert call.late is not None
        run_now(call.late())

    world.steps.of["s2"] = takes_long
    run_id = world.start()
    world.deliver()
    assert called(world) == ["s0", "s1", "s2", "s3"]
    assert [slot for slots in appended(world, run_id) for slot in slots] == [0, 1, 2, 3]


FLOW = chain(14, s3="run: python:m.s3, at_most_once: true", s9="sleep: 5s")


@pytest.mark.parametrize("is_done", [False, True], ids=["before it", "after it"])
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_a_worker_that_dies_at_any_call_repeats_the_steps_of_its_open_batch_alone(
    kind: str, is_done: bool, tmp_path: Path
) -> None:
    at, has_killed = 1, True
    while has_killed:
        world = World(FLOW)
        if kind == "sqlite":
            world.store.inner = SqliteStore(Database(tmp_path / f"{at}{is_done}.db"))
        run_id = world.start()
        killer = Killer(world, at, is_done)
        while (one := world.queue.receive(ALL_LANES, world.clock.now_ms(), 0)) is not None and not killer.has_killed:
            with suppress(PortError):
                run_now(dispatch(world.parts, one.lane, one.message, Unlimited(one.deliveries)))
                world.queue.delete(one)
            if (due_ms := world.queue.next_due_ms()) is not None:
                world.clock.set(max(due_ms, world.clock.now_ms()))
        has_killed, world.store.inner = killer.has_killed, killer._inner
        before = [slot for slots in appended(world, run_id) for slot in slots]
        ran, world.steps.calls = Counter(called(world)), []
        world.clock.set(world.clock.now_ms() + 60_000)
        deliver_again(world)
        written = records(world, run_id)
        assert [one.slot for one in written] == list(range(len(written))), at
        if world.header(run_id).status is Status.FAILED:  # it died around the step that runs at most once
            assert written[-1].error is not None
            assert (written[-1].node, written[-1].error.type) == ("s3", "outcome_unknown")
        else:
            assert (world.header(run_id).status, len(written)) == (Status.COMPLETED, 17), at
        stood = {one.node for one in written if one.slot in before and one.kind is Kind.STEP}
        assert not stood & set(called(world)), f"call {at}: a step ran again whose record was written"
        assert (ran + Counter(called(world)))["s3"] <= 1, at
        assert sum((ran + Counter(called(world))).values()) <= 13 + BATCH_RECORDS, at
        at += 1
    assert at > 10


def deliver_again(world: World) -> None:
    while (due_ms := world.queue.next_due_ms()) is not None:
        world.clock.set(max(due_ms, world.clock.now_ms()))
        while (one := world.queue.receive(ALL_LANES, world.clock.now_ms(), 60_000)) is not None:
            run_now(dispatch(world.parts, one.lane, one.message, Unlimited(one.deliveries)))
            world.queue.delete(one)


def test_a_batch_is_one_body_of_format_3() -> None:
    world, run_id = done(chain(3))
    (saved,) = run_now(world.store.read_log(run_id, "0"))
    assert is_batch(saved.body)
    assert saved.body.endswith('"v":3}')
    assert [one.together for one in decode_records(saved.body)] == [0, 0, 3]


def test_outcomes_are_those_of_the_steps() -> None:
    world = World(chain(3))
    world.steps.of |= {"s0": lambda call: {"n": 1}, "s1": lambda call: Outcome(None), "s2": lambda call: call.input}
    run_id = world.start()
    world.deliver()
    assert [one.output for one in records(world, run_id)][:2] == [{"n": 1}, None]
    assert records(world, run_id)[2].output["s0"] == {"n": 1}
