"""Compensation from end to end: what a failed run has done is undone, the last first, once each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stepwell.definition.authoring import StepDefaults
from stepwell.definition.graph import Json
from stepwell.engine.actions import Outcome
from stepwell.engine.records import ROOT, Kind, Pause, Record, Status
from stepwell.engine.retry import resolve_policy
from stepwell.engine.table import Phase
from stepwell.errors import Conflict, PortError
from stepwell.limits import ATTEMPT_MAX_MS, DAY_MS, HOUR_MS, MINUTE_MS
from stepwell.memory.inbox import ALL_LANES
from stepwell.runtime.log.messages import DeadLetter, Wake, from_json, to_json
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.ports import Lane
from stepwell.runtime.steps.port import StepCall
from tests.runtime.kit import World, fails

ORDER = """
workflow: flow
failure_policy: compensate
timeline:
  - {name: reserve, run: python:m.reserve, input: {item: "{{ input.item }}"}, compensate: {run: python:m.release}}
  - {name: note, run: python:m.note}
  - {name: charge, run: python:m.charge, compensate: {run: python:m.refund, retry: {max_retries: 2}}}
  - {name: ship, run: python:m.ship}
"""
FORKED = """
workflow: flow
failure_policy: compensate
nodes:
  deal: {run: python:m.deal, compensate: {run: python:m.undeal}, transitions: [{to: book, foreach: "{{ [0, 1, 2] }}"}]}
  book: {run: python:m.book, compensate: {run: python:m.unbook}, transitions: [{to: pay}]}
  pay: {run: python:m.pay, compensate: {run: python:m.unpay}, transitions: [{to: all}]}
  all: {fan_in: {policy: all}, run: python:m.sum, compensate: {run: python:m.unsum}, transitions: [{to: send}]}
  send: {run: python:m.send}
"""
DAG = """
workflow: flow
steps:
  - {name: last, run: python:m.last, depends_on: [middle, beside], on_failure: compensate}
  - {name: middle, run: python:m.middle, depends_on: [first]}
  - {name: first, run: python:m.first}
  - {name: beside, run: python:m.beside}
compensation:
  - {step: first, run: python:m.unfirst}
  - {step: middle, run: python:m.unmiddle}
  - {step: beside, run: python:m.unbeside}
"""


def run(text: str = ORDER, /, given: Json = None, **steps: Any) -> tuple[World, str]:
    world = World(text)
    world.steps.of.update(steps)
    run_id = world.start(given=given or {"item": "book"})
    world.deliver()
    return world, run_id


def undone(world: World) -> list[str]:
    """The compensations called, in order."""
    return [call.node.removesuffix(".compensate") for call in world.steps.calls if call.node.endswith(".compensate")]


def records(world: World, run_id: str) -> list[Record]:
    return list(run_now(world.service.records(run_id)))


def broken(_: StepCall) -> Outcome:
    return fails()


def test_what_completed_is_undone_the_last_first_and_the_original_error_is_kept() -> None:
    world, run_id = run(ship=broken)
    token = world.token(run_id)
    assert undone(world) == ["charge", "reserve"]
    assert world.header(run_id).status is Status.COMPENSATED
    assert token.end is not None
    assert token.end.error is not None
    assert token.end.error.type == "Broken"
    assert {name: view.status for name, view in token.steps.items()} == {
        "reserve": "compensated", "note": "completed", "charge": "compensated", "ship": "failed"}  # fmt: skip


def test_each_compensation_is_one_record_and_the_end_is_in_the_last() -> None:
    world, run_id = run(ship=broken)
    assert [one.kind for one in records(world, run_id)] == [*[Kind.STEP] * 4, Kind.UNDONE, Kind.UNDONE]


def test_a_compensation_gets_what_its_step_got_and_what_came_of_it() -> None:
    world, run_id = run(ship=broken, reserve=lambda call: {"shelf": 3})
    (call,) = [one for one in world.steps.calls if one.node == "reserve.compensate"]
    assert call.input == {"item": "book", "input": {"item": "book"}, "output": {"shelf": 3}}
    assert (call.run, call.key) == ("python:m.release", f"{run_id}:0:0:undo")


def test_a_compensation_can_map_its_own_input() -> None:
    text = ORDER.replace("run: python:m.release}", 'run: python:m.release, input: {shelf: "{{ result.shelf }}"}}')
    world, _ = run(text, ship=broken, reserve=lambda call: {"shelf": 3})
    (call,) = [one for one in world.steps.calls if one.node == "reserve.compensate"]
    assert call.input == {"shelf": 3}


UNMAPPED = ORDER.replace(
    "compensate: {run: python:m.refund", 'output: {paid: "{{ result.sum }}"}, compensate: {run: python:m.refund'
)
SCHEMA = ORDER.replace("failure_policy", "state_schema: {properties: {charge: {type: integer}}}\nfailure_policy")


@pytest.mark.parametrize("text", [UNMAPPED, SCHEMA])
def test_a_step_whose_output_cannot_be_written_is_undone_as_it_has_had_its_effect(text: str) -> None:
    world, run_id = run(text, charge=lambda call: {"card": 7})
    assert undone(world) == ["charge", "reserve"]
    assert world.header(run_id).status is Status.COMPENSATED
    token = world.token(run_id)
    assert token.error is not None
    assert token.error.category == "validation"
    assert (token.steps["charge"].status, token.steps["charge"].output) == ("compensated", None)
    (call,) = [one for one in world.steps.calls if one.node == "charge.compensate"]
    assert call.input["output"] == {"card": 7}


def test_it_is_not_tried_again_though_its_policy_names_validation() -> None:
    """So no attempt that has had an effect is followed by one that fails otherwise."""
    text = UNMAPPED.replace("m.charge,", "m.charge, retry: {max_retries: 3, on: [validation]},")
    world, run_id = run(text, charge=lambda call: {"card": 7})
    world.pass_time(MINUTE_MS)
    assert [call.node for call in world.steps.calls].count("charge") == 1
    assert undone(world) == ["charge", "reserve"]
    assert world.header(run_id).status is Status.COMPENSATED


def test_a_step_whose_output_failed_and_was_passed_over_is_undone_too() -> None:
    world, _ = run(UNMAPPED.replace("m.charge,", "m.charge, on_failure: skip,"), ship=broken)
    assert undone(world) == ["charge", "reserve"]


def test_a_step_whose_input_cannot_be_evaluated_is_not_undone() -> None:
    world, run_id = run(ORDER.replace("m.charge,", 'm.charge, input: {a: "{{ state.none.b }}"},'))
    assert undone(world) == ["reserve"]
    assert world.header(run_id).status is Status.COMPENSATED


def test_a_child_run_whose_output_cannot_be_mapped_is_undone() -> None:
    parent = UNMAPPED.replace("python:m.charge", "workflow:pay")
    world = World(parent, "workflow: pay\ntimeline: [{name: take, run: python:m.take}]")
    run_id = world.start(given={"item": "book"})
    world.deliver()
    assert undone(world) == ["charge", "reserve"]
    assert world.header(run_id).status is Status.COMPENSATED


def test_without_being_asked_for_nothing_is_undone() -> None:
    world, run_id = run(ORDER.replace("failure_policy: compensate\n", ""), ship=broken)
    assert undone(world) == []
    assert world.header(run_id).status is Status.FAILED


def test_a_step_alone_can_ask_for_it() -> None:
    text = ORDER.replace("failure_policy: compensate\n", "").replace("m.ship}", "m.ship, on_failure: compensate}")
    world, run_id = run(text, ship=broken)
    assert undone(world) == ["charge", "reserve"]
    world, run_id = run(text, charge=broken)
    assert (undone(world), world.header(run_id).status) == ([], Status.FAILED)


def test_a_compensation_is_retried_by_its_own_policy_with_one_key() -> None:
    tries: list[str] = []

    def refund(call: StepCall) -> Any:
        tries.append(call.key)
        return fails("Busy", "transient") if len(tries) < 3 else "ok"

    world, run_id = run(ship=broken, **{"charge.compensate": refund})
    assert world.header(run_id).status is Status.COMPENSATING
    world.pass_time(MINUTE_MS)
    assert world.header(run_id).status is Status.COMPENSATED
    assert len(tries) == 3
    assert len(set(tries)) == 1


def test_after_one_that_fails_nothing_further_is_undone() -> None:
    world, run_id = run(ship=broken, **{"charge.compensate": broken})
    token = world.token(run_id)
    assert undone(world) == ["charge"]
    assert world.header(run_id).status is Status.FAILED
    assert token.undoing is not None
    assert token.undoing.undone == ()
    assert token.steps["reserve"].status == "completed"
    assert token.end is not None
    assert token.end.error is not None
    assert token.end.error.type == "Broken"


def test_each_visit_of_a_loop_is_undone() -> None:
    text = """
workflow: flow
failure_policy: compensate
timeline:
  - {name: add, run: python:m.add, compensate: {run: python:m.take}, branch: [{when: "result < 3", back_to: add}]}
  - {name: send, run: python:m.send}
"""
    sums = iter([1, 2, 3])
    world, _ = run(text, add=lambda call: next(sums), send=broken)
    assert [call.input["output"] for call in world.steps.calls if call.node == "add.compensate"] == [3, 2, 1]


def test_what_branches_did_is_undone_too_and_a_fork_after_its_branches() -> None:
    world, run_id = run(FORKED, send=broken)
    assert world.header(run_id).status is Status.COMPENSATED
    found = undone(world)
    assert found[0] == "all"
    assert found[-1] == "deal"
    assert sorted(found[1:-1]) == ["book"] * 3 + ["pay"] * 3
    keys = [call.key for call in world.steps.calls if call.node.endswith(".compensate")]
    for index in range(3):  # each branch paid after it had booked
        assert keys.index(f"{run_id}:0/0.{index}:1:undo") < keys.index(f"{run_id}:0/0.{index}:0:undo")


def test_of_a_failed_fork_what_was_committed_is_undone_and_what_still_ran_is_not() -> None:
    """Branch 1 fails at once; branch 0 has booked and paid; branch 2 never began."""
    world, run_id = run(FORKED, book=lambda call: fails() if call.token.endswith(".1") else "ok")
    assert world.header(run_id).status is Status.COMPENSATED
    assert undone(world) == ["pay", "book", "deal"]


def test_a_dag_is_undone_in_the_reverse_of_its_dependencies_whatever_the_order_it_is_written_in() -> None:
    world, run_id = run(DAG, last=broken)
    assert world.header(run_id).status is Status.COMPENSATED
    found = undone(world)
    assert sorted(found) == ["beside", "first", "middle"]
    assert found.index("middle") < found.index("first")


@pytest.mark.parametrize(("said", "status"), [("[timeout]", Status.COMPENSATED), ("[cancel]", Status.TIMED_OUT)])
def test_a_workflow_that_times_out_is_undone_where_it_says_so(said: str, status: Status) -> None:
    text = ORDER.replace("failure_policy: compensate", f"timeout: 1h\ncompensate_on: {said}")
    world, run_id = run(text, ship=lambda call: Outcome(pause=Pause("approval", timeout_ms=DAY_MS)))
    world.pass_time(HOUR_MS)
    assert world.header(run_id).status is status
    assert undone(world) == (["charge", "reserve"] if status is Status.COMPENSATED else [])


def test_a_cancelled_run_is_undone_where_it_says_so_and_the_caller_is_kept() -> None:
    text = ORDER.replace("failure_policy: compensate", "compensate_on: [cancel]")
    world, run_id = run(text, ship=lambda call: Outcome(pause=Pause("approval", timeout_ms=DAY_MS)))
    assert run_now(world.service.cancel(run_id, "changed my mind", "ana"))
    with pytest.raises(Conflict, match="being undone") as refused:
        run_now(world.service.cancel(run_id))
    assert refused.value.code == "compensating"
    world.deliver()
    token = world.token(run_id)
    assert world.header(run_id).status is Status.COMPENSATED
    assert token.undoing is not None
    assert (token.undoing.reason, token.undoing.who) == ("changed my mind", "ana")


def test_a_cancelled_run_whose_compensation_fails_has_that_failure_as_its_error() -> None:
    text = ORDER.replace("failure_policy: compensate", "compensate_on: [cancel]")
    pause = Outcome(pause=Pause("approval", timeout_ms=DAY_MS))
    world, run_id = run(text, ship=lambda call: pause, **{"charge.compensate": broken})
    assert run_now(world.service.cancel(run_id))
    world.deliver()
    end = world.token(run_id).end
    assert end is not None
    assert (end.status, end.error and end.error.type) == (Status.FAILED, "Broken")


def test_a_run_that_has_not_begun_has_nothing_to_undo() -> None:
    world = World(ORDER.replace("failure_policy: compensate", "compensate_on: [cancel]"))
    run_id = world.start(given={"item": "book"})
    assert run_now(world.service.cancel(run_id))
    assert world.header(run_id).status is Status.CANCELLED


def test_terminate_ends_it_in_the_middle_and_the_deadline_does_not() -> None:
    text = ORDER.replace("workflow: flow", "workflow: flow\ntimeout: 1h").replace(
        "max_retries: 2", "max_retries: 50, initial_delay: 10m, max_delay: 10m"
    )
    world, run_id = run(text, ship=broken, **{"charge.compensate": lambda call: fails("Busy", "transient")})
    world.pass_time(2 * HOUR_MS)
    assert world.header(run_id).status is Status.COMPENSATING
    assert run_now(world.service.terminate(run_id, "enough"))
    world.deliver()
    assert world.header(run_id).status is Status.FAILED


def test_a_worker_that_dies_between_two_of_them_undoes_nothing_twice() -> None:
    world = World(ORDER)
    world.steps.of["ship"] = broken
    run_id = world.start(given={"item": "book"})

    def dies(*_: object) -> None:
        raise PortError("gone")

    def at_the_second(*args: Any) -> None:
        if '"undone"' in args[3]:
            world.store.before["append"] = dies
        else:
            world.store.before["append"] = at_the_second

    world.store.before["append"] = at_the_second
    with pytest.raises(PortError):
        world.deliver()
    world.store.before.clear()
    world.pass_time(2 * MINUTE_MS)
    assert world.header(run_id).status is Status.COMPENSATED
    assert [one.undid for one in records(world, run_id) if one.kind is Kind.UNDONE] == ["0@2", "0@0"]


def test_a_compensation_that_kills_its_worker_is_a_partial_rollback() -> None:
    world = World(ORDER)
    world.steps.of["ship"] = broken
    world.steps.of["charge.compensate"] = lambda call: (_ for _ in ()).throw(SystemExit("died"))
    run_id = world.start(given={"item": "book"})
    with pytest.raises(SystemExit):
        world.deliver()
    slot = world.token(run_id).slot
    world.send(Lane.RESUME, to_json(DeadLetter(Wake(run_id, slot))))
    world.deliver()
    token = world.token(run_id)
    assert world.header(run_id).status is Status.FAILED
    assert token.last is not None
    assert token.last.error is not None
    assert (token.last.kind, token.last.error.type) == (Kind.UNDONE, "worker_lost")


def test_a_nothing_to_undo_is_compensated_all_the_same() -> None:
    world, run_id = run(reserve=broken)
    assert undone(world) == []
    assert world.header(run_id).status is Status.COMPENSATED


def test_a_child_run_is_undone_by_the_compensation_of_its_node() -> None:
    text = """
workflow: flow
failure_policy: compensate
timeline:
  - {name: book, run: "workflow:hotel", input: {nights: 2}, compensate: {run: python:m.unbook}}
  - {name: pay, run: python:m.pay}
"""
    world = World(text, "workflow: hotel\ntimeline:\n  - {name: room, run: python:m.room}\n")
    world.steps.of.update(pay=broken, room=lambda call: {"room": 12})
    run_id = world.start(given={"item": "book"})
    world.deliver()
    assert world.header(run_id).status is Status.COMPENSATED
    (call,) = [one for one in world.steps.calls if one.node == "book.compensate"]
    assert call.input == {"nights": 2, "input": {"nights": 2}, "output": {"room": 12}}


def dies(*_: object) -> None:
    raise PortError("gone")


def waits(_: StepCall) -> Outcome:
    return Outcome(pause=Pause("approval", timeout_ms=DAY_MS))


def test_who_cancels_again_after_a_call_that_died_sets_the_compensation_going() -> None:
    world, run_id = run(ORDER.replace("failure_policy: compensate", "compensate_on: [cancel]"), ship=waits)
    world.store.before["change_status"] = dies  # the record stands, and nobody was woken
    with pytest.raises(PortError):
        run_now(world.service.cancel(run_id))
    with pytest.raises(Conflict, match="being undone"):
        run_now(world.service.cancel(run_id))
    world.pass_time(ATTEMPT_MAX_MS)  # a worker that the first call woke is done by then
    assert world.header(run_id).status is Status.COMPENSATED


def test_a_deadline_that_comes_again_sets_the_compensation_going() -> None:
    text = ORDER.replace("failure_policy: compensate", "timeout: 1h\ncompensate_on: [timeout]")
    world, run_id = run(text, ship=waits)
    world.store.before["change_status"] = dies
    with pytest.raises(PortError):
        world.pass_time(HOUR_MS)
    world.pass_time(HOUR_MS)
    assert world.header(run_id).status is Status.COMPENSATED


def test_a_compensation_may_run_again_whatever_its_function_says() -> None:
    """`at_most_once` is for what cannot be repeated; its start is a record of its own, which a rollback has not."""
    world = World(ORDER)
    world.steps.of["ship"] = broken
    world.steps.policy = lambda step: resolve_policy(  # type: ignore[method-assign]  # of these steps
        step, StepDefaults(at_most_once=step.run == "python:m.refund")
    )
    run_id = world.start(given={"item": "book"})
    world.deliver()
    assert world.header(run_id).status is Status.COMPENSATED


def test_terminated_before_anybody_began_to_undo_it_its_branches_end_too() -> None:
    world, run_id = run(FORKED.replace("failure_policy: compensate", "compensate_on: [cancel]"), book=waits)
    world.store.before["change_status"] = dies
    with pytest.raises(PortError):
        run_now(world.service.cancel(run_id))
    assert run_now(world.service.terminate(run_id))
    found = run_now(world.service.branches(run_id, "0/0", 0, 3))
    assert [one.token.phase for one in found] == [Phase.CANCELLED] * 3


def test_a_branch_that_had_to_wait_for_another_is_undone_before_it_whatever_its_clock_said() -> None:
    text = FORKED.replace('[0, 1, 2] }}"}', '[0, 1, 2] }}", max_concurrency: 1}')
    world = World(text)
    world.steps.of["send"] = broken

    began_ms = world.clock.now_ms()

    def at_second(seconds: int) -> Callable[[StepCall], str]:
        def step(call: StepCall) -> str:
            world.clock.set(began_ms + 1_000 * seconds)
            return "ok"

        return step

    world.steps.of["book"] = lambda call: at_second(60 if call.token.endswith(".0") else 2)(call)
    world.steps.of["pay"] = at_second(1)  # the next branch runs on a machine whose clock is behind
    world.start(given={})
    world.deliver()
    keys = [call.key.split(":")[1] for call in world.steps.calls if call.node in {"book.compensate", "pay.compensate"}]
    assert keys == ["0/0.2", "0/0.2", "0/0.1", "0/0.1", "0/0.0", "0/0.0"]


def test_a_compensation_is_told_of_the_time_that_its_step_was_given() -> None:
    text = ORDER.replace('item: "{{ input.item }}"', 'now: "{{ now }}", began: "{{ run.started_at }}"')
    world, _ = run(text, ship=broken)
    given = {call.node: call.input for call in world.steps.calls}
    assert given["reserve.compensate"]["input"] == given["reserve"]


def test_a_compensation_that_kills_the_worker_of_a_branchs_message_is_a_partial_rollback() -> None:
    world = World(FORKED)
    world.steps.of["send"] = broken
    world.steps.of["all.compensate"] = lambda call: (_ for _ in ()).throw(SystemExit("died"))
    run_id = world.start(given={})
    with pytest.raises(SystemExit):
        world.deliver()
    world.lose_messages()
    run_now(world.parts.coordinator.handle(DeadLetter(Wake(run_id, -1, "0/0.2"))))
    sent = world.queue.receive(ALL_LANES, world.clock.now_ms(), MINUTE_MS)
    assert sent is not None
    wake = from_json(sent.message)
    assert isinstance(wake, Wake)
    assert wake.token == ROOT  # who dies of this one dies of what the run itself does next
    run_now(world.parts.coordinator.handle(DeadLetter(wake)))
    world.deliver()
    last = world.token(run_id).last
    assert world.header(run_id).status is Status.FAILED
    assert last is not None
    assert last.error is not None
    assert last.error.type == "worker_lost"


def test_an_error_that_a_user_calls_terminated_is_undone_as_any_other() -> None:
    world, run_id = run(ship=lambda call: fails("terminated"))
    assert world.header(run_id).status is Status.COMPENSATED
