"""What callers may ask of a run, in each state it can be in; and what comes twice, or at the same moment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stepwell.definition.graph import Json
from stepwell.errors import Conflict, InvalidInput, NotFound, PortError, UserError
from stepwell.runtime.log.messages import Wake, to_json
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.ports import Lane
from stepwell.runtime.ports.headers import StatusChange
from stepwell.runtime.starts.starting import Start, Started
from tests.runtime.kit import NOW_MS, World, fails

FLOW = """
workflow: flow
input_schema: {type: [object, "null"], properties: {n: {type: integer}}}
timeline:
  - {name: work, run: python:m.work}
  - {name: hold, wait: {for: approval}}
  - {name: event, wait: {for: event, name: paid, key: "{{ run.id }}"}}
  - {name: nap, sleep: 60s}
  - {name: last, run: python:m.last}
"""


def ask(world: World, **options: Any) -> Started:
    return run_now(world.service.start(Start("flow", **options)))


def idle(world: World) -> str:
    return world.start(create_only=True)


def pending(world: World) -> str:
    return world.start()


def later(world: World) -> str:
    return world.start(start_at_ms=NOW_MS + 10**7)


def approving(world: World) -> str:
    run_id = world.start()
    world.deliver()
    return run_id


def awaiting(world: World) -> str:
    run_id = approving(world)
    run_now(world.service.approve(run_id))
    world.deliver()
    return run_id


def sleeping(world: World) -> str:
    run_id = awaiting(world)
    run_now(world.service.send_event("paid", {}, key=run_id))
    world.deliver()
    return run_id


def completed(world: World) -> str:
    run_id = sleeping(world)
    world.pass_time(60_000)
    return run_id


def failed(world: World) -> str:
    world.steps.of["work"] = lambda call: fails()
    return approving(world)


def cancelled(world: World) -> str:
    run_id = approving(world)
    run_now(world.service.cancel(run_id))
    return run_id


LIVE = [idle, pending, later, approving, awaiting, sleeping]
ENDED = [completed, failed, cancelled]
STATES: list[tuple[Callable[[World], str], str]] = [
    (idle, "idle"), (pending, "pending"), (later, "pending"), (approving, "waiting"), (awaiting, "waiting"),
    (sleeping, "waiting"), (completed, "completed"), (failed, "failed"), (cancelled, "cancelled"),
]  # fmt: skip


@pytest.mark.parametrize(("state", "status"), STATES)
def test_each_state_shows_its_status(state: Callable[[World], str], status: str) -> None:
    world = World(FLOW)
    assert world.header(state(world)).status == status


@pytest.mark.parametrize("state", LIVE)
def test_a_live_run_can_be_cancelled_and_nothing_follows(state: Callable[[World], str]) -> None:
    world = World(FLOW)
    run_id = state(world)
    assert run_now(world.service.cancel(run_id, "enough", "kim"))
    slot = world.token(run_id).slot
    world.pass_time(10**9)
    assert (world.header(run_id).status, world.token(run_id).slot) == ("cancelled", slot)
    last = run_now(world.service.records(run_id))[-1]
    assert (last.reason, last.who) == ("enough", "kim")


@pytest.mark.parametrize("state", LIVE)
def test_a_live_run_can_be_terminated_and_has_failed(state: Callable[[World], str]) -> None:
    world = World(FLOW)
    run_id = state(world)
    assert run_now(world.service.terminate(run_id, "now", "kim"))
    world.pass_time(10**9)
    end = world.token(run_id).end
    assert end is not None
    assert (end.status, end.error and end.error.type) == ("failed", "terminated")


@pytest.mark.parametrize("state", ENDED)
def test_nothing_happens_to_an_ended_run(state: Callable[[World], str]) -> None:
    world = World(FLOW)
    run_id = state(world)
    header, slot = world.header(run_id), world.token(run_id).slot
    assert not run_now(world.service.cancel(run_id))
    assert not run_now(world.service.terminate(run_id))
    world.pass_time(10**9)
    assert (world.header(run_id), world.token(run_id).slot) == (header, slot)


@pytest.mark.parametrize("state", [*LIVE, *ENDED])
@pytest.mark.parametrize("answer", ["approve", "reject"])
def test_only_a_run_that_waits_for_an_approval_can_be_answered(state: Callable[[World], str], answer: str) -> None:
    world = World(FLOW)
    run_id = state(world)
    call = getattr(world.service, answer)
    if state is approving:
        run_now(call(run_id))
        assert world.deliver() >= 1
        assert world.header(run_id).status == ("waiting" if answer == "approve" else "failed")
        return
    with pytest.raises(Conflict) as refused:
        run_now(call(run_id))
    assert refused.value.code == "not_waiting"


@pytest.mark.parametrize("state", [*LIVE, *ENDED])
def test_only_an_idle_run_can_be_started(state: Callable[[World], str]) -> None:
    world = World(FLOW)
    run_id = state(world)
    if state is idle:
        assert run_now(world.service.start_idle(run_id, "ana")).status == "pending"
        world.deliver()
        assert world.header(run_id).status == "waiting"
        return
    with pytest.raises(Conflict) as refused:
        run_now(world.service.start_idle(run_id))
    assert refused.value.code == "not_idle"


@pytest.mark.parametrize("call", ["cancel", "terminate", "approve", "reject", "start_idle", "header", "records"])
def test_a_run_that_is_not_there_is_not_found_and_an_id_that_cannot_be_is_refused(call: str) -> None:
    world = World(FLOW)
    with pytest.raises(NotFound):
        run_now(getattr(world.service, call)("run_nobody"))
    with pytest.raises(UserError):
        run_now(getattr(world.service, call)("../etc"))


def test_an_idle_run_that_was_cancelled_cannot_be_started() -> None:
    world = World(FLOW)
    run_id = idle(world)
    run_now(world.service.cancel(run_id))
    with pytest.raises(Conflict):
        run_now(world.service.start_idle(run_id))


def test_an_idle_run_does_not_move_until_it_is_started() -> None:
    world = World(FLOW)
    run_id = idle(world)
    world.send(Lane.WORK, to_json(Wake(run_id, -1)))
    world.pass_time(10**9)
    assert (world.header(run_id).status, world.token(run_id).slot) == ("idle", -1)


def test_starting_an_idle_run_twice_at_once_starts_it_once() -> None:
    world = World(FLOW)
    run_id = idle(world)
    run_now(world.service.start_idle(run_id))
    run_now(world.service.start_idle(run_id))  # repeated: the first answer may have got lost
    world.deliver()
    assert len(world.steps.calls) == 1


def test_a_run_begins_at_its_time_and_not_before() -> None:
    world = World(FLOW)
    run_id = later(world)
    world.pass_time(10**7 - 1)
    assert world.header(run_id).status == "pending"
    world.pass_time(1)
    assert world.header(run_id).status == "waiting"


# -- keys


def test_a_repeated_key_gets_the_first_run_and_starts_nothing() -> None:
    world = World(FLOW)
    first, second = ask(world, input={"n": 1}, key="k"), ask(world, input={"n": 1}, key="k")
    assert (first.created, second.created) == (True, False)
    assert first.header.run_id == second.header.run_id
    world.deliver()
    assert len(world.steps.calls) == 1
    assert ask(world, input={"n": 1}, key="k").header.status == "waiting"


@pytest.mark.parametrize("changed", [{"input": {"n": 2}}, {"tags": {"a": "b"}}, {"priority": 3}, {"create_only": True}])
def test_a_key_or_run_id_with_another_body_is_refused(changed: dict[str, Json]) -> None:
    world = World(FLOW)
    for name in ("key", "run_id"):
        ask(world, **{"input": {"n": 1}, name: "same"})
        with pytest.raises(Conflict) as refused:
            ask(world, **{"input": {"n": 1}, name: "same", **changed})
        assert refused.value.code == "already_used"


def test_a_key_is_the_workflow_s_own() -> None:
    world = World(FLOW, FLOW.replace("workflow: flow", "workflow: other"))
    assert world.start("flow", key="k") != world.start("other", key="k")


def test_a_run_id_used_by_another_workflow_is_refused() -> None:
    world = World(FLOW, FLOW.replace("workflow: flow", "workflow: other"))
    world.start("flow", run_id="mine")
    with pytest.raises(Conflict):
        world.start("other", run_id="mine")


def test_a_start_with_two_keys_is_refused() -> None:
    with pytest.raises(InvalidInput):
        ask(World(FLOW), key="a", run_id="b")


def test_what_the_input_schema_refuses_is_not_written() -> None:
    world = World(FLOW)
    with pytest.raises(InvalidInput) as refused:
        ask(world, input={"n": "text"})
    assert [problem.path for problem in refused.value.problems] == ["/input/n"]
    assert not world.store.writes


def test_a_start_whose_caller_died_is_completed_by_its_repetition() -> None:
    world = World(FLOW)
    ask(world, key="k")
    world.lose_messages()
    run_id = ask(world, key="k").header.run_id
    world.deliver()
    assert world.header(run_id).status == "waiting"


# -- two at the same moment


def test_an_approval_that_is_sent_twice_is_given_once() -> None:
    world = World(FLOW)
    run_id = approving(world)
    for _ in range(2):
        run_now(world.service.approve(run_id, {"n": 1}, "ana"))
    world.deliver()
    assert world.token(run_id).scope["approval"] == {"decision": "approved", "by": "ana", "data": {"n": 1}}


def test_an_approval_names_the_wait_that_is_meant() -> None:
    world = World(FLOW)
    run_id = approving(world)
    with pytest.raises(Conflict):
        run_now(world.service.approve(run_id, wait="another"))
    run_now(world.service.approve(run_id, wait="hold"))


def racing(world: World, run_id: str, late: Callable[[], Any]) -> None:
    """`late` looked at the run before ana's approval took the slot, and appends after it."""
    world.store.before["append"] = lambda *_: run_now(world.service.approve(run_id, {"n": 1}, "ana"))
    late()


def test_of_an_approval_and_a_rejection_at_the_same_moment_one_is_refused() -> None:
    world = World(FLOW)
    run_id = approving(world)
    with pytest.raises(Conflict):
        racing(world, run_id, lambda: run_now(world.service.reject(run_id, "no", "leo")))


def test_of_two_different_approvals_at_the_same_moment_one_is_refused() -> None:
    """The answer is definite: who is told yes finds his own words in the record."""
    world = World(FLOW)
    run_id = approving(world)
    with pytest.raises(Conflict):
        racing(world, run_id, lambda: run_now(world.service.approve(run_id, {"n": 2}, "leo")))


def test_a_repeated_answer_that_names_another_wait_is_refused() -> None:
    world = World(FLOW)
    run_id = approving(world)
    run_now(world.service.approve(run_id, {"n": 1}, "ana", wait="hold"))
    with pytest.raises(Conflict):
        run_now(world.service.approve(run_id, {"n": 1}, "ana", wait="another"))


def test_a_cancel_that_meets_an_approval_takes_the_next_slot() -> None:
    world = World(FLOW)
    run_id = approving(world)
    racing(world, run_id, lambda: run_now(world.service.cancel(run_id)))
    world.deliver()
    assert world.header(run_id).status == "cancelled"
    assert len(world.steps.calls) == 1


def test_a_step_that_ends_after_the_cancel_is_not_committed() -> None:
    world = World(FLOW)
    run_id = pending(world)
    world.steps.of["work"] = lambda call: run_now(world.service.cancel(run_id))
    world.deliver()
    assert world.header(run_id).status == "cancelled"
    assert world.token(run_id).steps == {}


def test_a_store_that_does_not_answer_is_not_taken_for_an_answer() -> None:
    world = World(FLOW)
    run_id = approving(world)

    def broken(*_: object) -> None:
        raise PortError("no answer")

    world.store.before["append"] = broken
    with pytest.raises(PortError):
        run_now(world.service.approve(run_id))
    run_now(world.service.approve(run_id))  # and it can be asked again


def test_a_redrive_waits_a_moment_for_the_header_of_a_run_that_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who reads a run reads its log, which has the end first."""
    world, late = World(FLOW), list[StatusChange]()
    world.steps.of["work"] = lambda call: fails()
    change = world.store.change_status

    async def not_yet(given: StatusChange) -> bool:
        if given.status.terminal:
            late.append(given)
        return not given.status.terminal and await change(given)

    async def at_last(duration_ms: int) -> None:
        await change(late.pop())

    run_id = world.start()
    monkeypatch.setattr(world.store, "change_status", not_yet)
    world.deliver()
    assert world.token(run_id).ended
    assert not world.header(run_id).status.terminal
    monkeypatch.setattr(world.clock, "sleep_ms", at_last)
    assert run_now(world.service.redrive_foretold(run_id))["run_id"] == run_id
    assert not late
    assert run_now(world.service.redrive(run_id)).created
