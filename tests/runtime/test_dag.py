"""The format `steps` from end to end: what begins when, what each step knows, skips, failures, waits, faults."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest import mock

import pytest

from stepwell.definition.graph import Json, Node
from stepwell.engine import decide
from stepwell.engine.forks.branches import fork_into
from stepwell.engine.records import End, Fork, Kind, Status
from stepwell.engine.stored.codec import decode_record, encode_record
from stepwell.engine.token import Token
from stepwell.errors import Conflict, PortError
from stepwell.limits import DAY_MS
from stepwell.memory.inbox import ALL_LANES
from stepwell.runtime.dispatch import dispatch
from stepwell.runtime.log.door import Unlimited
from stepwell.runtime.log.messages import Wake, to_json
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.loop.sweeper import StuckRun
from stepwell.runtime.ports import Lane
from tests.runtime.kit import World, fails

STILL_MS = 600_000
DIAMOND = """
workflow: flow
steps:
  - {name: a, run: python:m.a}
  - {name: b, run: python:m.b, depends_on: [a]}
  - {name: c, run: python:m.c, depends_on: [a]}
  - {name: d, run: python:m.d, depends_on: [b, c]}
"""


def dag(*steps: str, head: str = "") -> str:
    """`name < those it depends on | more keys`: a step; with `wait` or `sleep` among the keys, that."""
    lines = []
    for step in steps:
        named, _, more = (part.strip() for part in step.partition("|"))
        name, _, needs = (part.strip() for part in named.partition("<"))
        keys = [f"name: {name}", f"depends_on: [{', '.join(needs.split())}]", *([more] if more else [])]
        kind = [] if "wait:" in more or "sleep:" in more else [f"run: python:m.{name}"]
        lines.append(f"  - {{{', '.join([*keys, *kind])}}}")
    return "\n".join(["workflow: flow", head, "steps:", *lines])


def ran(text: str, given: Json = None, **steps: Any) -> tuple[World, str]:
    """A run that stands where it can go no further without time or a caller."""
    world = World(text)
    world.steps.of.update(steps)
    run_id = world.start(given=given)
    world.deliver()
    return world, run_id


def called(world: World) -> list[str]:
    return [call.node for call in world.steps.calls]


def inputs(world: World) -> dict[str, Json]:
    return {call.node: call.input for call in world.steps.calls}


def end_of(world: World, run_id: str) -> End:
    end = world.token(run_id).end
    assert end is not None
    return end


def step(world: World, run_id: str, index: int) -> Token:
    """The token of the step at this place of the definition."""
    (at,) = run_now(world.service.branches(run_id, "0/0", index, 1))
    return at.token


def statuses(world: World, run_id: str) -> list[str]:
    """How the steps have ended, in the order of the definition; "" for one that has not."""
    branches = run_now(world.service.branches(run_id, "0/0", 0, 1_000))
    return [branch.token.end.status.value if branch.token.end else "" for branch in branches]


def handle_one(world: World, times: int = 1) -> None:
    one = world.queue.receive(ALL_LANES, world.clock.now_ms(), 60_000)
    assert one is not None
    for _ in range(times):
        run_now(dispatch(world.parts, one.lane, one.message, Unlimited(one.deliveries)))
    world.queue.delete(one)


def handle_all(world: World, times: int = 1) -> None:
    while world.queue.next_due_ms() is not None:
        handle_one(world, times)


def dies(*_: object) -> None:
    raise PortError("the worker died here")


# -- what begins when


def test_each_step_begins_when_all_that_it_depends_on_have_ended() -> None:
    world, run_id = ran(DIAMOND)
    order = called(world)
    assert sorted(order) == ["a", "b", "c", "d"]
    assert (order[0], order[-1]) == ("a", "d")
    assert end_of(world, run_id).status is Status.COMPLETED


def test_steps_may_stand_in_any_order_in_the_definition() -> None:
    world, _ = ran(dag("c < b", "b < a", "a"))
    assert called(world) == ["a", "b", "c"]


def test_the_result_is_what_every_step_brought_by_its_name() -> None:
    world, run_id = ran(DIAMOND, a=lambda _: {"x": 1})
    assert world.token(run_id).result == {"a": {"x": 1}, "b": "b", "c": "c", "d": "d"}
    assert dict(world.token(run_id).scope) == {"a": {"x": 1}, "b": "b", "c": "c", "d": "d"}


def test_what_the_steps_need_stands_in_the_record_of_their_fork() -> None:
    world, run_id = ran(DIAMOND)
    first, *_ = run_now(world.service.records(run_id))
    assert isinstance(first.next, Fork)
    assert first.next.needs == ((), (0,), (0,), (1, 2))
    assert '"needs":[[],[0],[0],[1,2]]' in encode_record(first)
    assert decode_record(encode_record(first)) == first


def test_a_single_step_is_a_dag_too() -> None:
    world, run_id = ran(dag("only"))
    assert world.token(run_id).result == {"only": "only"}


def test_steps_that_depend_on_none_begin_at_once_by_a_message_each() -> None:
    world = World(dag("a", "b", "c"))
    world.start()
    handle_one(world)
    assert called(world) == []
    handle_one(world)
    assert called(world) == ["a"]
    assert world.deliver() == 2


def test_steps_that_are_ready_together_do_not_wait_for_each_other() -> None:
    world, run_id = ran(dag("a", "slow < a | wait: {for: approval}", "b < a", "c < b"))
    assert called(world) == ["a", "b", "c"]
    assert statuses(world, run_id) == ["completed", "", "completed", "completed"]


def test_a_chain_of_ten_costs_one_message() -> None:
    world = World(dag("s0", *(f"s{number} < s{number - 1}" for number in range(1, 10))))
    world.start()
    handle_one(world)
    assert world.deliver() == 1
    assert len(world.steps.calls) == 10


@pytest.mark.parametrize("times", [1, 2])
def test_the_last_step_of_a_diamond_runs_once_however_often_a_message_comes(times: int) -> None:
    world = World(DIAMOND)
    run_id = world.start()
    handle_all(world, times)
    assert sorted(called(world)) == ["a", "b", "c", "d"]
    records = run_now(world.service.records(run_id))
    assert [record.kind for record in records] == [Kind.MOVED, Kind.JOINED]
    assert end_of(world, run_id).status is Status.COMPLETED


def test_the_copy_of_a_message_does_not_do_the_step_that_a_later_one_began() -> None:
    world = World(dag("a", "b < a", "nap | sleep: 1d", "c < b nap"))
    world.start()
    handle_one(world)
    first = world.queue.receive(ALL_LANES, world.clock.now_ms(), DAY_MS)
    assert first is not None

    def comes_again() -> None:
        run_now(dispatch(world.parts, first.lane, first.message, Unlimited(first.deliveries)))

    comes_again()
    world.steps.of["c"] = lambda _: comes_again()
    world.deliver()
    world.pass_time(DAY_MS)
    assert called(world) == ["a", "b", "c"]


def test_a_dag_of_an_earlier_release_keeps_no_order_of_arrivals() -> None:
    def of_before(node: Node) -> Fork:
        return replace(fork_into(node), by_arrival=False)

    with mock.patch.object(decide, "fork_into", of_before):
        world = World(DIAMOND)
        run_id = world.start()
        handle_all(world, 2)
    fork = run_now(world.service.records(run_id))[0].next
    assert isinstance(fork, Fork)
    assert not fork.by_arrival
    assert sorted(called(world)) == ["a", "b", "c", "d"]


def test_a_hundred_and_fifty_steps_run() -> None:
    wide = [f"s{number} < first" for number in range(148)]
    text = dag("first", *wide, f"last < {' '.join(f's{number}' for number in range(148))}")
    world = World(text)
    run_id = world.start()
    handle_all(world, 2)
    assert (len(world.steps.calls), called(world)[-1]) == (150, "last")
    assert len(world.token(run_id).result) == 150


def test_a_dag_that_was_only_created_begins_when_it_is_started() -> None:
    world = World(DIAMOND)
    run_id = world.start(create_only=True)
    world.deliver()
    assert called(world) == []
    run_now(world.service.start_idle(run_id))
    world.deliver()
    assert world.token(run_id).result == {"a": "a", "b": "b", "c": "c", "d": "d"}


# -- what a step knows


def test_a_step_reads_the_outputs_of_all_before_it() -> None:
    read = 'input: {far: "{{ steps.a.output.n }}", near: "{{ steps.b.output }}", by_state: "{{ state.a.n }}"}'
    world, _ = ran(dag("a", "b < a", f"c < b | {read}"), a=lambda _: {"n": 1})
    assert inputs(world)["c"] == {"far": 1, "near": "b", "by_state": 1}


def test_without_an_input_a_step_gets_the_runs_with_the_outputs_before_it() -> None:
    world, _ = ran(dag("a", "b < a", "c"), given={"user": "ana"})
    assert inputs(world) == {"a": {"user": "ana"}, "b": {"user": "ana", "a": "a"}, "c": {"user": "ana"}}


def test_a_step_does_not_see_what_ran_beside_it() -> None:
    world, _ = ran(dag("a", "b < a", "beside", "c < b"))
    assert set(inputs(world)["c"]) == {"a", "b"}


def test_an_output_is_written_into_the_state_of_those_after_it() -> None:
    world, run_id = ran(dag('a | output: {account: "{{ result.id }}"}', "b < a"), a=lambda _: {"id": 7})
    assert inputs(world)["b"] == {"account": 7}
    assert dict(world.token(run_id).scope) == {"account": 7, "b": "b"}
    assert world.token(run_id).result == {"a": {"id": 7}, "b": "b"}


def test_a_step_without_code_joins_others_and_brings_null() -> None:
    text = dag("a", "b", "both < a b", "c < both").replace(", run: python:m.both", "")
    world, run_id = ran(text)
    assert (called(world)[-1], inputs(world)["c"]) == ("c", {"a": "a", "b": "b"})
    assert world.token(run_id).result == {"a": "a", "b": "b", "both": None, "c": "c"}


# -- skips and failures


SKIPPED = dag("a | on_failure: skip", "b < a", "c < b", "other", "d < c other")


def test_a_step_all_of_whose_dependencies_were_skipped_is_skipped_and_the_others_see_null() -> None:
    world, run_id = ran(SKIPPED, a=lambda _: fails())
    assert called(world) == ["a", "other", "d"]
    assert inputs(world)["d"] == {"a": None, "b": None, "c": None, "other": "other"}
    assert world.token(run_id).result == {"a": None, "b": None, "c": None, "other": "other", "d": "d"}
    assert [step(world, run_id, index).steps[name].status for index, name in enumerate("abc")] == ["skipped"] * 3


def test_a_skip_says_whether_the_step_failed_or_what_is_before_it() -> None:
    world, run_id = ran(SKIPPED, a=lambda _: fails())
    assert [step(world, run_id, index).steps[name].error is None for index, name in enumerate("abc")] == [
        False, True, True]  # fmt: skip


def test_a_skip_lets_a_condition_read_what_was_skipped() -> None:
    read = 'input: {was: "{{ steps.a.status }}", brought: "{{ steps.a.output }}"}'
    world, _ = ran(dag("a | on_failure: skip", "b", f"c < a b | {read}"), a=lambda _: fails())
    assert inputs(world)["c"] == {"was": "skipped", "brought": None}


def test_a_run_whose_steps_were_all_skipped_has_completed() -> None:
    world, run_id = ran(dag("a | on_failure: skip", "b < a"), a=lambda _: fails())
    assert world.header(run_id).status is Status.COMPLETED
    assert world.token(run_id).result == {"a": None, "b": None}


def test_a_failed_step_fails_the_run_with_its_own_error_and_ends_what_still_runs() -> None:
    text = dag("a", "hold < a | wait: {for: approval}", "bad < a", "never < bad", "napping | sleep: 2d", "z < hold")
    world, run_id = ran(text, bad=lambda _: fails("Declined"))
    end = end_of(world, run_id)
    assert end.error is not None
    assert (end.status, end.error.type, end.error.message, end.error.data) == (
        Status.FAILED, "Declined", "no luck", None)  # fmt: skip
    assert statuses(world, run_id) == ["completed", "cancelled", "failed", "cancelled", "cancelled", "cancelled"]
    world.pass_time(3 * DAY_MS)
    assert called(world) == ["a", "bad"]


def test_a_failure_waits_for_nothing_and_nothing_begins_after_it() -> None:
    world, run_id = ran(dag("a", "b", "c", "d < b"), a=lambda _: fails())
    assert called(world) == ["a"]
    assert statuses(world, run_id) == ["failed", "cancelled", "cancelled", "cancelled"]


def test_a_step_is_tried_again_by_the_policy_of_the_format() -> None:
    world, run_id = ran(dag("a", "b < a"), b=lambda call: fails("Away", "transient") if call.attempt < 4 else "at last")
    world.pass_time(6_999)
    assert [call.attempt for call in world.steps.calls if call.node == "b"] == [1, 2, 3]
    world.pass_time(1)
    assert world.token(run_id).result == {"a": "a", "b": "at last"}


@pytest.mark.parametrize(("category", "tries"), [("transient", 4), ("step", 1)])
def test_only_what_may_pass_is_tried_again_and_not_for_ever(category: str, tries: int) -> None:
    world, run_id = ran(dag("a"), a=lambda _: fails("Away", category))
    world.pass_time(DAY_MS)
    error = end_of(world, run_id).error
    assert error is not None
    assert (len(world.steps.calls), error.type) == (tries, "Away")


# -- waits


@pytest.mark.parametrize("wait", ["ask", "0/0.1"])
def test_an_approval_holds_back_only_what_depends_on_it(wait: str) -> None:
    world, run_id = ran(dag("a", "ask < a | wait: {for: approval}", "b < a", "ship < ask b"))
    assert called(world) == ["a", "b"]
    run_now(world.service.approve(run_id, {"ok": True}, "kim", wait=wait))
    world.deliver()
    assert called(world) == ["a", "b", "ship"]
    assert inputs(world)["ship"]["approval"]["decision"] == "approved"
    assert world.token(run_id).result["ask"]["decision"] == "approved"


@pytest.mark.parametrize("wait", ["a", "ship", "nobody", "0/0.2"])
def test_an_answer_to_a_step_that_does_not_wait_is_refused(wait: str) -> None:
    world, run_id = ran(dag("a", "ask < a | wait: {for: approval}", "ship < ask"))
    with pytest.raises(Conflict):
        run_now(world.service.approve(run_id, wait=wait))
    assert statuses(world, run_id) == ["completed", "", ""]


def test_an_answer_that_names_no_step_is_for_the_one_that_waits() -> None:
    world, run_id = ran(dag("a", "ask < a | wait: {for: approval}", "ship < ask"))
    run_now(world.service.approve(run_id))
    world.deliver()
    assert statuses(world, run_id) == ["completed"] * 3


def test_the_same_answer_twice_is_one() -> None:
    world, run_id = ran(dag("ask | wait: {for: approval}", "ship < ask"))
    for _ in range(2):
        run_now(world.service.approve(run_id, who="kim", wait="ask"))
    world.deliver()
    assert called(world) == ["ship"]


def test_a_sleep_passes_and_what_depends_on_it_goes_on() -> None:
    world, run_id = ran(dag("nap | sleep: 2d", "a < nap", "b"))
    world.pass_time(2 * DAY_MS - 1)
    assert called(world) == ["b"]
    world.pass_time(1)
    assert called(world) == ["b", "a"]
    assert world.token(run_id).result == {"nap": None, "a": "a", "b": "b"}


def test_an_event_ends_the_wait_of_a_step() -> None:
    world, run_id = ran(dag('paid | wait: {for: event, name: paid, key: "{{ input.order }}"}', "ship < paid"),
                        given={"order": "o1"})  # fmt: skip
    run_now(world.service.send_event("paid", {"amount": 5}, key="o1"))
    world.deliver()
    assert called(world) == ["ship"]
    assert world.token(run_id).result["paid"] == {"amount": 5}


def test_a_wait_whose_time_is_up_ends_the_run_as_timed_out() -> None:
    world, run_id = ran(dag("ask | wait: {for: approval, timeout: 1h}", "b < ask"))
    world.pass_time(3_600_000)
    end = end_of(world, run_id)
    assert end.error is not None
    assert (end.status, end.error.step) == (Status.TIMED_OUT, "ask")


# -- ends from outside


def test_a_cancel_in_the_middle_ends_every_step() -> None:
    world, run_id = ran(dag("a", "hold < a | wait: {for: approval}", "b < hold"))
    assert run_now(world.service.cancel(run_id, "enough", "kim"))
    world.deliver()
    assert statuses(world, run_id) == ["completed", "cancelled", "cancelled"]
    assert world.header(run_id).status is Status.CANCELLED
    assert called(world) == ["a"]


def test_a_cancel_of_a_wide_dag_ends_the_steps_of_every_page() -> None:
    world, run_id = ran(dag("hold | wait: {for: approval}", *(f"s{number} < hold" for number in range(149))))
    run_now(world.service.cancel(run_id))
    world.deliver()
    assert statuses(world, run_id) == ["cancelled"] * 150


def test_the_deadline_of_the_run_ends_a_dag_in_the_middle() -> None:
    world, run_id = ran(dag("a", "nap < a | sleep: 2d", "b < nap", head="timeout: 1d"))
    world.pass_time(3 * DAY_MS)
    assert end_of(world, run_id).status is Status.TIMED_OUT
    assert statuses(world, run_id) == ["completed", "cancelled", "cancelled"]
    assert called(world) == ["a"]


# -- what it costs, and faults


def test_every_attempt_of_every_step_is_counted() -> None:
    world, run_id = ran(DIAMOND, b=lambda call: fails("Away", "transient") if call.attempt < 3 else 1)
    world.pass_time(DAY_MS)
    assert world.token(run_id).calls == len(world.steps.calls) == 6


def test_to_show_a_dag_costs_one_query_for_each_hundred_steps_and_another_run_none() -> None:
    world, run_id = ran(dag("a", *(f"s{number} < a" for number in range(149))))
    other = World("workflow: flow\nnodes: {a: {transitions: [{to: b, foreach: '{{ input }}'}]}, b: {run: python:m.b}}")
    other_id = other.start(given=list(range(150)))
    handle_one(other)
    for one, name, queries in ((world, run_id, 2), (other, other_id, 0)):
        before = one.store.calls["read_logs"]
        run_now(one.service.standing(name))
        assert one.store.calls["read_logs"] - before == queries


@pytest.mark.parametrize("call", ["arrive", "read_logs", "append"])
@pytest.mark.parametrize("after", range(4))
def test_a_worker_that_dies_is_replaced_by_the_redelivery(call: str, after: int) -> None:
    world = World(DIAMOND)
    run_id = world.start()
    for _ in range(after):
        if world.queue.next_due_ms() is not None:
            handle_one(world)
    world.store.before[call] = dies
    for _ in range(9):
        one = world.queue.receive((Lane.WORK,), world.clock.now_ms(), 0)
        if one is None:
            break
        try:
            run_now(dispatch(world.parts, one.lane, one.message, Unlimited(one.deliveries)))
        except PortError:
            continue
        world.queue.delete(one)
    world.store.before.clear()
    assert world.token(run_id).result == {"a": "a", "b": "b", "c": "c", "d": "d"}


def test_a_message_for_a_step_whose_time_has_not_come_begins_nothing() -> None:
    world, run_id = ran(dag("hold | wait: {for: approval}", "b < hold"))
    world.send(Lane.WORK, to_json(Wake(run_id, -1, "0/0.1")))
    world.deliver()
    assert called(world) == []
    assert statuses(world, run_id) == ["", ""]


def test_the_sweeper_finds_nothing_in_a_dag_that_waits_for_a_person() -> None:
    world, _ = ran(dag("a", "hold < a | wait: {for: approval, timeout: 30d}", "b < hold"))
    world.pass_time(9 * DAY_MS)
    assert run_now(world.sweeper.sweep(STILL_MS)) == ()
    assert world.deliver() == 1  # the step that ended last tells its end again
    assert called(world) == ["a"]


def test_the_sweeper_leaves_a_step_alone_that_has_just_begun() -> None:
    world, run_id = ran(dag("hold | wait: {for: approval, timeout: 30d}", "b < hold | timeout: 1h"))
    world.pass_time(9 * DAY_MS)
    found: list[tuple[StuckRun, ...]] = []
    world.steps.of["b"] = lambda _: found.append(run_now_beside(world)) or "done"
    run_now(world.service.approve(run_id, wait="0/0.0"))
    world.deliver()
    assert (found, called(world)) == ([()], ["b"])


def run_now_beside(world: World) -> tuple[StuckRun, ...]:
    """What a sweep finds while a step is at work."""
    sweep = world.sweeper.sweep(STILL_MS)
    try:
        sweep.send(None)
    except StopIteration as done:
        found: tuple[StuckRun, ...] = done.value
        return found
    raise AssertionError("a sweep over memory does not wait")


def test_the_sweeper_wakes_a_step_whose_message_was_lost() -> None:
    world = World(dag("a", "b < a"))
    run_id = world.start()
    handle_one(world)
    world.lose_messages()
    world.clock.advance(DAY_MS)
    assert run_now(world.sweeper.sweep(STILL_MS)) == (StuckRun(run_id, "no_progress"),)
    world.deliver()
    assert world.token(run_id).result == {"a": "a", "b": "b"}


def test_the_sweeper_wakes_a_dag_whose_last_end_was_not_told() -> None:
    world = World(dag("a", "b < a"))
    run_id = world.start()
    handle_one(world)
    world.steps.of["b"] = lambda _: world.store.before.update(arrive=dies)
    with pytest.raises(PortError):
        world.deliver()
    world.lose_messages()
    world.clock.advance(DAY_MS)
    run_now(world.sweeper.sweep(STILL_MS))
    world.deliver()
    assert end_of(world, run_id).status is Status.COMPLETED
