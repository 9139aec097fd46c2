"""Child runs from end to end: started once, waited for, told of once, ended when nobody waits for them any more."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from stepwell.definition.graph import Json
from stepwell.engine.actions import Outcome
from stepwell.engine.children import child_id
from stepwell.engine.records import Kind, Status
from stepwell.errors import Conflict, NotFound, PortError
from stepwell.limits import CHILD_DEPTH, HOUR_MS, MINUTE_MS
from stepwell.runtime.dispatch import dispatch
from stepwell.runtime.log.door import Unlimited
from stepwell.runtime.log.messages import Wake, to_json
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.ports import Lane
from stepwell.runtime.ports.headers import Header, RunQuery
from tests.runtime.kit import World, fails, first_wake, handle

CALLS = """
workflow: flow
timeline:
  - {name: ask, run: "workflow:fraud"OPTIONS}
  - {name: after, run: python:m.after}
"""
FRAUD = """
workflow: fraud
input_schema: {type: object, properties: {n: {type: integer}}}
timeline:
  - {name: look, run: python:m.look}
"""
SLOW = """
workflow: slow
timeline:
  - {name: wait, wait: {for: approval, timeout: 20h}}
"""
SEVERAL = """
workflow: flow
timeline:
  - {name: ask, children: [{workflow: fraud}, {workflow: slow}, {workflow: fraud}]OPTIONS}
  - {name: after, run: python:m.after}
"""


def calling(options: str = "", text: str = CALLS, **steps: Any) -> tuple[World, str]:
    world = World(text.replace("OPTIONS", options and f", {options}"), FRAUD, SLOW)
    world.steps.of.update(steps)
    run_id = world.start(given={"n": 1})
    world.deliver()
    return world, run_id


def children_of(world: World, run_id: str) -> list[Header]:
    """In the order in which the parent started them."""
    headers = run_now(world.service.runs(RunQuery())).headers
    mine = [one for one in headers if one.parent and one.parent.startswith(f"{run_id}|")]
    return sorted(mine, key=lambda one: int((one.parent or "").split("|")[3]))


def result_of(world: World, run_id: str, node: str = "ask") -> Json:
    return world.token(run_id).steps[node].output


def kinds(world: World, run_id: str) -> list[Kind]:
    return [record.kind for record in run_now(world.service.records(run_id))]


def test_a_child_runs_on_its_own_and_its_result_is_the_nodes() -> None:
    world, run_id = calling(look=lambda call: {"seen": call.input["n"]})
    assert world.header(run_id).status is Status.COMPLETED
    assert result_of(world, run_id) == {"seen": 1}
    (child,) = children_of(world, run_id)
    assert (child.workflow, child.status, child.run_id) == ("fraud", Status.COMPLETED, child_id(run_id, "0", 0, 0))


def test_the_parent_waits_without_a_step_and_three_records_are_all_it_writes_for_a_child() -> None:
    world, run_id = calling()
    assert kinds(world, run_id) == [Kind.WAITING, Kind.RESUMED, Kind.MOVED, Kind.STEP]


def test_while_its_child_waits_the_parent_waits_for_children() -> None:
    world, run_id = calling(text=CALLS.replace("fraud", "slow"))
    header = world.header(run_id)
    assert (header.status, header.waiting_for, header.waiting_node) == (Status.WAITING, "children", "ask")
    assert header.waiting_until_ms == header.waiting_since_ms + HOUR_MS


def test_input_and_output_are_mapped() -> None:
    world, run_id = calling('input: {n: "{{ input.n + 1 }}"}, output: {score: "{{ result.seen }}"}',
                            look=lambda call: {"seen": call.input["n"]})  # fmt: skip
    assert world.token(run_id).scope["score"] == 2


def test_an_input_that_the_child_refuses_is_a_validation_error_of_the_node() -> None:
    world, run_id = calling('input: {n: "many"}')
    error = world.token(run_id).error
    assert error is not None
    assert (error.type, error.category, error.step) == ("invalid_input", "validation", "ask")
    assert "could not be started" in error.message
    assert children_of(world, run_id) == []


def test_a_child_whose_limit_has_a_key_that_its_input_lacks_is_a_validation_error_of_the_node() -> None:
    keyed = FRAUD.replace("fraud", "keyed") + 'concurrency: {limit: 1, key: "{{ input.who }}"}\n'
    world = World(CALLS.replace("OPTIONS", "").replace("fraud", "keyed"), keyed)
    run_id = world.start(given={"n": 1})
    world.deliver()
    error = world.token(run_id).error
    assert error is not None
    assert (error.type, error.category, error.step) == ("bad_key", "validation", "ask")
    assert "`concurrency.key` cannot be computed" in error.message
    assert children_of(world, run_id) == []


def test_a_child_of_an_unknown_workflow_fails_the_node() -> None:
    world, run_id = calling(text=CALLS.replace("fraud", "nowhere"))
    error = world.token(run_id).error
    assert error is not None
    assert (error.type, error.category) == ("unknown_workflow", "validation")


def test_several_children_run_beside_each_other_and_their_results_are_kept_by_name() -> None:
    world, run_id = calling(text=SEVERAL, look=lambda call: {"seen": call.input["n"]})
    first, slow, last = children_of(world, run_id)
    assert [first.status, last.status] == [Status.COMPLETED, Status.COMPLETED]
    run_now(world.service.approve(slow.run_id, who="ana"))
    world.deliver()
    assert world.header(run_id).status is Status.COMPLETED
    found = result_of(world, run_id)
    assert found["fraud"] == found["fraud_2"] == {"seen": 1}
    assert found["slow"]["by"] == "ana"


def test_children_have_five_minutes_unless_the_definition_says_otherwise_and_then_all_are_cancelled() -> None:
    world, run_id = calling(text=SEVERAL)
    world.pass_time(5 * MINUTE_MS)
    header = world.header(run_id)
    assert header.status is Status.TIMED_OUT
    error = world.token(run_id).error
    assert error is not None
    assert error.type == "children_timeout"
    assert [one.status for one in children_of(world, run_id)] == [
        Status.COMPLETED, Status.CANCELLED, Status.COMPLETED]  # fmt: skip


def test_one_child_failing_fails_the_node_and_cancels_the_others() -> None:
    world, run_id = calling(text=SEVERAL, look=lambda call: fails("Fraud"))
    error = world.token(run_id).error
    assert error is not None
    assert error.type == "child_failed"
    assert error.data["name"] == "fraud"
    assert error.data["error"]["type"] == "Fraud"
    assert children_of(world, run_id)[1].status is Status.CANCELLED


def test_siblings_finish_first_where_the_definition_says_so() -> None:
    world, run_id = calling("siblings: finish", SEVERAL, look=lambda call: fails("Fraud"))
    slow = children_of(world, run_id)[1]
    assert (world.header(run_id).status, slow.status) == (Status.WAITING, Status.WAITING)
    run_now(world.service.approve(slow.run_id))
    world.deliver()
    assert world.header(run_id).status is Status.FAILED
    assert world.header(slow.run_id).status is Status.COMPLETED


@pytest.mark.parametrize(("said", "status", "output"), [
    ("propagate", Status.FAILED, None),
    ("isolate", Status.COMPLETED, None),
    ("skip", Status.COMPLETED, None),
    ("return", Status.COMPLETED, False),
])  # fmt: skip
def test_what_a_failed_child_does_to_its_parent(said: str, status: Status, output: Json) -> None:
    world, run_id = calling(f"on_failure: {said}", look=lambda call: fails("Fraud"))
    assert world.header(run_id).status is status
    found = result_of(world, run_id)
    assert (found["childExecutionSuccess"] if found else None) is output
    if said == "return":
        assert found["error"]["type"] == "Fraud"
        assert found["triggeredExecutionId"] == children_of(world, run_id)[0].run_id


@pytest.mark.parametrize("said", ["isolate", "return", "skip"])
def test_a_child_whose_own_time_is_up_has_failed(said: str) -> None:
    """Here its wait's; what is said of a failed child is true of it."""
    world, run_id = calling(f"on_failure: {said}, timeout: 24h", CALLS.replace("fraud", "slow"))
    world.pass_time(21 * HOUR_MS)
    assert [one.status for one in children_of(world, run_id)] == [Status.TIMED_OUT]
    assert world.header(run_id).status is Status.COMPLETED


@pytest.mark.parametrize(("said", "status"), [
    ("isolate", Status.TIMED_OUT), ("return", Status.TIMED_OUT), ("skip", Status.COMPLETED),
])  # fmt: skip
def test_the_time_of_the_node_is_no_failure_of_a_child(said: str, status: Status) -> None:
    world, run_id = calling(f"on_failure: {said}, timeout: 1h", CALLS.replace("fraud", "slow"))
    world.pass_time(2 * HOUR_MS)
    assert [one.status for one in children_of(world, run_id)] == [Status.CANCELLED]
    assert world.header(run_id).status is status


def test_a_retried_child_is_a_new_run() -> None:
    tries: list[str] = []

    def look(call: Any) -> Any:
        tries.append(call.run_id)
        return fails("Fraud") if len(tries) < 3 else "ok"

    world, run_id = calling("retry: {max_retries: 3, initial_delay: 1s, on: [child_failed]}", look=look)
    shown = world.token(run_id).steps["ask"]
    assert (len(tries), shown.attempts, shown.ended_ms) == (1, 1, 0)  # it has not ended: another try follows
    world.pass_time(MINUTE_MS)
    assert world.header(run_id).status is Status.COMPLETED
    assert len(set(tries)) == 3
    assert world.token(run_id).steps["ask"].attempts == 3


def test_a_cancel_reaches_the_children_and_theirs() -> None:
    top = CALLS.replace("workflow: flow", "workflow: top").replace("fraud", "flow").replace("OPTIONS", "")
    world = World(top, CALLS.replace("fraud", "slow").replace("OPTIONS", ""), SLOW)
    run_id = world.start("top")
    world.deliver()
    assert run_now(world.service.cancel(run_id))
    world.deliver()
    statuses = {one.workflow: one.status for one in run_now(world.service.runs(RunQuery())).headers}
    assert statuses == dict.fromkeys(("top", "flow", "slow"), Status.CANCELLED)


def test_an_abandoned_child_outlives_its_parent() -> None:
    world, run_id = calling("parent_close: abandon", CALLS.replace("fraud", "slow"))
    run_now(world.service.cancel(run_id))
    world.deliver()
    (child,) = children_of(world, run_id)
    assert child.status is Status.WAITING
    run_now(world.service.approve(child.run_id))
    world.deliver()
    assert world.header(child.run_id).status is Status.COMPLETED
    assert world.header(run_id).status is Status.CANCELLED


def test_a_detached_child_is_started_once_and_nobody_waits_for_it() -> None:
    world, run_id = calling("detached: true", CALLS.replace("fraud", "slow"))
    assert world.header(run_id).status is Status.COMPLETED
    (child,) = children_of(world, run_id)
    assert child.run_id == result_of(world, run_id)
    assert child.status is Status.WAITING
    assert kinds(world, run_id) == [Kind.STEP, Kind.STEP]


def test_an_internal_workflow_is_started_by_runs_alone() -> None:
    world = World(CALLS.replace("OPTIONS", ""), FRAUD + "internal: true\n")
    with pytest.raises(Conflict, match="internal") as refused:
        world.start("fraud", {"n": 1})
    assert refused.value.code == "internal_workflow"
    run_id = world.start(given={"n": 1})
    world.deliver()
    assert world.header(run_id).status is Status.COMPLETED


def test_workflows_that_call_each_other_come_to_an_end() -> None:
    world = World("workflow: flow\ntimeline:\n  - {name: ask, run: 'workflow:flow'}\n")
    run_id = world.start()
    world.deliver()
    assert world.header(run_id).status is Status.FAILED
    headers = run_now(world.service.runs(RunQuery())).headers
    assert len(headers) == CHILD_DEPTH + 1
    error = world.token(headers[0].run_id).error
    assert error is not None
    assert "runs are above it" in error.message


def test_a_step_can_ask_for_children() -> None:
    from stepwell.engine.records import Pause  # noqa: PLC0415 - as the executor makes it

    asked = [{"name": "fraud", "workflow": "fraud", "input": {"n": 7}}]
    world = World("workflow: flow\ntimeline:\n  - {name: ask, run: python:m.ask}\n", FRAUD)
    world.steps.of["ask"] = lambda call: Outcome(pause=Pause("children", data=asked, result={"mine": 1}))
    world.steps.of["look"] = lambda call: call.input["n"]
    run_id = world.start()
    world.deliver()
    assert result_of(world, run_id) == {"mine": 1, "fraud": 7}


def test_each_branch_of_a_fork_can_be_a_child_run() -> None:
    text = """
workflow: flow
nodes:
  deal: {transitions: [{to: ask, foreach: "{{ input.list }}"}]}
  ask: {run: "workflow:fraud", input: {n: "{{ branch.item }}"}, output: {n: "{{ result }}"}, transitions: [{to: end}]}
"""
    world = World(text.replace("to: end", "to: join") + "  join: {fan_in: {policy: all}}\n", FRAUD)
    world.steps.of["look"] = lambda call: call.input["n"] * 10
    run_id = world.start(given={"list": [1, 2, 3]})
    world.deliver()
    assert world.header(run_id).status is Status.COMPLETED
    assert world.token(run_id).result == [{"n": 10}, {"n": 20}, {"n": 30}]


def test_the_children_of_a_cancelled_branch_are_cancelled() -> None:
    text = """
workflow: flow
nodes:
  deal: {fan_out: all, transitions: [{to: ask}, {to: quick}]}
  ask: {run: "workflow:slow", transitions: [{to: join}]}
  quick: {run: python:m.quick, transitions: [{to: join}]}
  join: {fan_in: {policy: any}}
"""
    world = World(text, SLOW)
    run_id = world.start()
    world.deliver()
    assert world.header(run_id).status is Status.COMPLETED
    (child,) = children_of(world, run_id)
    assert child.status is Status.CANCELLED


def test_a_second_delivery_of_every_message_starts_and_tells_nothing_twice() -> None:
    world = World(SEVERAL.replace("OPTIONS", "").replace("slow", "fraud"), FRAUD)
    run_id = world.start(given={"n": 1})
    seen: list[tuple[Lane, Json]] = []
    send = world.queue.send

    async def twice(lane: Lane, message: Json, at_ms: int = 0) -> None:
        await send(lane, message, at_ms)
        await send(lane, message, at_ms)
        seen.append((lane, message))

    world.queue.send = twice  # type: ignore[method-assign]  # of this queue
    world.send(Lane.WORK, {"type": "wake", "run_id": run_id, "token": "0", "slot": -1})
    world.deliver()
    assert world.header(run_id).status is Status.COMPLETED
    assert [call.node for call in world.steps.calls].count("look") == 3
    assert len(children_of(world, run_id)) == 3


def test_a_child_whose_teller_died_is_told_of_again() -> None:
    world, run_id = calling(text=CALLS.replace("fraud", "slow"))
    (child,) = children_of(world, run_id)

    def dies(*_: object) -> None:
        raise PortError("gone")

    world.store.before["append"] = lambda *_: world.store.before.update(append=dies)
    run_now(world.service.approve(child.run_id))
    with pytest.raises(PortError):
        world.deliver()
    world.store.before.clear()
    world.pass_time(2 * MINUTE_MS)  # its message comes again
    assert world.header(run_id).status is Status.COMPLETED


def test_a_zombie_cannot_start_a_child_of_a_wait_that_is_over() -> None:
    """The parent is cancelled while its worker is about to make the child: the child is made, and cancelled."""
    world = World(CALLS.replace("OPTIONS", ""), FRAUD)
    run_id = world.start(given={"n": 1})
    world.store.before["create_run"] = lambda *_: run_now(world.service.cancel(run_id))
    world.deliver()
    (child,) = children_of(world, run_id)
    assert (world.header(run_id).status, child.status) == (Status.CANCELLED, Status.CANCELLED)
    assert world.steps.calls == []


def test_the_sweeper_tells_of_a_child_whose_canceller_died_and_is_silent_while_children_run() -> None:
    world, run_id = calling("timeout: 20h", SEVERAL.replace("stock", "slow"))
    world.pass_time(HOUR_MS)
    assert run_now(world.sweeper.sweep(5 * MINUTE_MS)) == ()
    (slow,) = [one for one in children_of(world, run_id) if one.workflow == "slow"]

    def dies(*_: object) -> None:
        raise PortError("gone")

    world.store.before["arrive"] = dies
    with pytest.raises(PortError):
        run_now(world.service.cancel(slow.run_id))
    world.pass_time(HOUR_MS)
    (found,) = run_now(world.sweeper.sweep(5 * MINUTE_MS))
    assert (found.run_id, found.why) == (run_id, "no_progress")
    world.deliver()
    assert world.header(run_id).status is Status.FAILED


def test_a_parent_resumed_by_its_own_worker_is_pushed_on_by_that_one_though_it_dies() -> None:
    """Whoever starts the children again finds that all have ended; the last of them was not told of yet."""
    world = World(SEVERAL.replace("OPTIONS", "").replace("slow", "fraud"), FRAUD)
    run_id = world.start(given={"n": 1})
    mine = Wake(run_id, -1)
    first, second, third = (Wake(child_id(run_id, "0", 0, index), -1) for index in range(3))
    for wake in (mine, first, second):
        run_now(dispatch(world.parts, Lane.WORK, to_json(wake), Unlimited()))
    world.lose_messages()

    def dies(*_: object) -> None:
        raise PortError("gone")

    world.store.before["append"] = lambda *_: world.store.before.update(append=dies)  # its end; not its parent's
    with pytest.raises(PortError):
        run_now(dispatch(world.parts, Lane.WORK, to_json(third), Unlimited()))
    world.store.before["append"] = lambda *_: world.store.before.update(change_status=dies, get_run=dies)
    with pytest.raises(PortError):
        run_now(dispatch(world.parts, Lane.WORK, to_json(mine), Unlimited(2)))
    world.store.before.clear()
    assert kinds(world, run_id) == [Kind.WAITING, Kind.RESUMED]
    world.lose_messages()
    for wake in (third, mine):
        run_now(dispatch(world.parts, Lane.WORK, to_json(wake), Unlimited(3)))
    assert world.header(run_id).status is Status.COMPLETED


def test_an_abandoned_child_that_was_made_and_not_set_going_begins_when_the_wait_is_over() -> None:
    """The parent's worker dies between the two, and the cancel that follows makes its message stale."""
    world = World(CALLS.replace("OPTIONS", ", parent_close: abandon"), FRAUD)
    run_id = world.start(given={"n": 1})

    async def dies(*_: object) -> None:
        raise PortError("gone")

    send = world.queue.send
    world.queue.send = dies  # type: ignore[assignment,method-assign]  # of this queue
    with pytest.raises(PortError):
        run_now(dispatch(world.parts, Lane.WORK, to_json(Wake(run_id, -1)), Unlimited()))
    world.queue.send = send  # type: ignore[method-assign]  # of this queue
    run_now(world.service.cancel(run_id))
    world.deliver()
    (child,) = children_of(world, run_id)
    assert (world.header(run_id).status, child.status) == (Status.CANCELLED, Status.COMPLETED)


def test_a_detached_child_that_was_made_and_not_set_going_begins_although_its_parent_was_cancelled() -> None:
    world = World(CALLS.replace("OPTIONS", ", detached: true"), FRAUD)
    run_id = world.start(given={"n": 1})

    async def dies(*_: object) -> None:
        raise PortError("gone")

    send = world.queue.send

    def made(*_: object) -> None:
        world.queue.send = dies  # type: ignore[assignment,method-assign]  # of this queue

    world.store.before["create_run"] = made
    with pytest.raises(PortError):
        run_now(dispatch(world.parts, Lane.WORK, to_json(Wake(run_id, -1)), Unlimited()))
    world.queue.send = send  # type: ignore[method-assign]  # of this queue
    run_now(world.service.cancel(run_id))
    world.pass_time(5 * MINUTE_MS)
    (child,) = children_of(world, run_id)
    assert (world.header(run_id).status, child.status) == (Status.CANCELLED, Status.COMPLETED)


def test_a_detached_childs_first_step_is_done_once_however_long_it_takes() -> None:
    """Its second message, in case that its parent dies before the first, comes two minutes later."""
    world = World(CALLS.replace("OPTIONS", ", detached: true"), FRAUD)
    world.start(given={"n": 1})
    handle(world, first_wake(world))
    own = first_wake(world)
    world.clock.advance(2 * MINUTE_MS)
    late = first_wake(world)

    def another_comes(_: Any) -> None:
        del world.steps.of["look"]
        handle(world, late, Unlimited())

    world.steps.of["look"] = another_comes
    handle(world, own, Unlimited())
    assert [call.node for call in world.steps.calls].count("look") == 1


def test_a_detached_child_that_was_deleted_is_not_started_again_by_a_second_try_of_its_step() -> None:
    world = World(CALLS.replace("OPTIONS", ", detached: true"), FRAUD)
    run_id = world.start(given={"n": 1})

    def dies(*_: object) -> None:
        raise PortError("gone")

    world.store.before["append"] = dies
    body = first_wake(world)
    with pytest.raises(PortError):
        handle(world, body)
    (child,) = children_of(world, run_id)
    run_now(world.parts.eraser.delete(child.run_id, force=True))
    handle(world, body)
    world.pass_time(5 * MINUTE_MS)
    assert (world.header(run_id).status, result_of(world, run_id)) == (Status.COMPLETED, child.run_id)
    assert children_of(world, run_id) == []


def test_no_record_is_older_than_what_it_follows_from_whatever_the_clocks_of_the_machines() -> None:
    """A child is not older than the wait that called it, nor its parent's next record than the child's end."""
    world = World(CALLS.replace("OPTIONS", ""), FRAUD)
    run_id = world.start(given={"n": 1})
    wakes = Wake(run_id, -1), Wake(child_id(run_id, "0", 0, 0), -1)
    for wake in wakes:  # the status shown second is what the last record says: from then on the clock is behind
        behind = partial(world.clock.set, world.clock.now_ms() - MINUTE_MS)
        world.store.before["change_status"] = lambda *_, then=behind: world.store.before.update(
            change_status=lambda *_: then()
        )
        run_now(dispatch(world.parts, Lane.WORK, to_json(wake), Unlimited()))
    (child,) = children_of(world, run_id)
    waiting, resumed = run_now(world.service.records(run_id))
    (done,) = run_now(world.service.records(child.run_id))
    assert waiting.at_ms <= child.created_ms <= done.at_ms <= resumed.at_ms


def test_a_child_with_a_short_retention_is_kept_until_its_parent_has_its_result() -> None:
    parent = "workflow: flow\ntimeline: [{name: both, children: [{workflow: quick}, {workflow: slow}], timeout: 1d}]"
    quick = "workflow: quick\nretention: 1h\ntimeline: [{name: count, run: python:m.count}]"
    slow = "workflow: slow\ntimeline: [{name: ask, wait: {for: event, name: asked, key: k}}]"
    world = World(parent, quick, slow)
    run_id, alone = world.start(), world.start("quick")
    world.deliver()
    world.pass_time(20 * HOUR_MS)
    assert world.store.inner.purge(world.clock.now_ms()) == 1  # the one that is nobody's child
    with pytest.raises(NotFound):
        world.header(alone)
    run_now(world.service.send_event("asked", None, key="k"))
    world.deliver()
    assert world.header(run_id).status is Status.COMPLETED
    assert world.token(run_id).result["quick"] == "count"
    world.pass_time(6 * HOUR_MS)
    assert world.store.inner.purge(world.clock.now_ms()) == 1


def test_a_run_whose_id_is_used_again_takes_no_result_of_the_first_ones_child() -> None:
    """The first run's items have expired, and its child's have not."""
    world = World(CALLS.replace("OPTIONS", ""), FRAUD)
    run_id = world.start(run_id="order-1", given={"n": 1})
    world.deliver()
    run_now(world.store.erase_logs(run_id, ()))
    run_now(world.store.drop_run(run_id, 0))
    world.pass_time(2 * HOUR_MS)
    assert world.start(run_id="order-1", given={"n": 2}) == run_id
    world.deliver()
    error = world.token(run_id).error
    assert error is not None
    assert (error.type, world.header(run_id).status) == ("child_of_earlier", Status.FAILED)
