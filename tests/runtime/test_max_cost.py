"""A run that has cost more than its `max_cost` asks for an approval before its next step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest

from stepwell.api.runs.explain import explain
from stepwell.api.runs.views import run_view
from stepwell.engine.limits import spending
from stepwell.engine.records import Kind
from stepwell.engine.stored.codec import decode_record
from stepwell.engine.waits.approval import ApprovalWait
from stepwell.engine.waits.kind import WaitKind
from stepwell.errors import Conflict, PortError
from stepwell.limits import HOUR_MS, MINUTE_MS
from stepwell.prices import Prices
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.ports.headers import RunQuery
from stepwell.runtime.steps.port import StepCall
from stepwell.testing.kit import Stepwell
from tests.runtime.kit import World
from tests.runtime.test_gathering_kills import Killed
from tests.runtime.test_permit_kills import deliver

T = TypeVar("T")

LOOP = """
workflow: flow
max_cost: 0.00001
timeline:
  - name: work
    run: python:m.work
    branch: [{when: "result < 40", back_to: work}]
"""
CENT = 0.00001
FORKED = """
workflow: flow
max_cost: 0.000012
nodes:
  begin: {transitions: [{to: work, foreach: "{{ input.items }}"}]}
  work: {run: python:m.work, transitions: [{to: joined}]}
  joined: {fan_in: {merge: append, target: outs}, transitions: [{to: tell}]}
  tell: {run: python:m.tell}
"""


FUNCTION = """
from stepwell import step, workflow

@step
def work(n: int) -> int:
    return n

@workflow(max_cost=0.00001)
async def many(ctx):
    return [await ctx.step(work, n) for n in range(30)]
"""


def ask(call: Callable[[], T]) -> T:
    """A caller who is not answered asks again."""
    try:
        return call()
    except PortError:
        return call()


def calls_of(world: World, _: StepCall) -> int:
    return len(world.steps.calls)


def approve(world: World, run_id: str) -> None:
    run_now(world.service.approve(run_id, None, "ana"))


def looping(definition: str = LOOP) -> tuple[World, str]:
    world = World(definition)
    world.steps.of["work"] = partial(calls_of, world)
    run_id = world.start()
    world.deliver()
    return world, run_id


def spent(world: World, run_id: str) -> float:
    view = run_view(run_now(world.service.standing(run_id)), world.clock.now_ms())
    return float(view["waiting_data"]["spent_usd"])


def test_a_run_asks_for_an_approval_once_it_has_cost_more_than_it_may() -> None:
    world, run_id = looping()
    assert world.header(run_id).status == "waiting"
    assert world.header(run_id).waiting_for == "approval"
    assert 1 < len(world.steps.calls) < 40
    assert CENT < spent(world, run_id) < 1.3 * CENT
    assert [
        one.run_id for one in run_now(world.store.list_runs(RunQuery(waiting_for=frozenset({"approval"})))).headers
    ] == [run_id]
    world.pass_time(1_000 * HOUR_MS)
    assert world.header(run_id).status == "waiting"


def test_what_a_run_may_cost_is_compared_at_the_prices_that_are_deployed() -> None:
    calls = len(looping()[0].steps.calls)
    cheap = World(LOOP)
    cheap.catalog.prices = replace(Prices(), million_write_units=0, million_read_units=0)
    cheap.steps.of["work"] = partial(calls_of, cheap)
    cheap.start()
    cheap.deliver()
    assert len(cheap.steps.calls) > calls


def test_an_approval_without_a_limit_lets_the_run_go_on_to_its_end() -> None:
    world, run_id = looping()
    calls = len(world.steps.calls)
    approve(world, run_id)
    world.deliver()
    assert world.header(run_id).status == "completed"
    assert len(world.steps.calls) == 40
    assert world.steps.calls[calls].attempt == 1  # it stepped aside: no attempt was lost


def test_an_approval_with_a_limit_has_the_run_ask_again_at_that_one() -> None:
    world, run_id = looping()
    run_now(world.service.approve(run_id, {"max_cost": 2 * CENT}, "ana"))
    world.deliver()
    assert world.header(run_id).waiting_for == "approval"
    assert 2 * CENT < spent(world, run_id) < 2.4 * CENT


@pytest.mark.parametrize("limit", [CENT / 2, "much", -1, True])
def test_a_limit_that_the_run_has_passed_or_that_is_none_is_refused_and_the_run_waits_on(limit: object) -> None:
    world, run_id = looping()
    with pytest.raises(Conflict) as refused:
        run_now(world.service.approve(run_id, {"max_cost": limit}, "ana"))
    assert refused.value.code == "bad_max_cost"
    assert world.header(run_id).status == "waiting"


def test_a_rejection_fails_the_run_and_undoes_what_it_did_where_it_says_so() -> None:
    undone = LOOP.replace("m.work", "m.work\n    compensate: {run: python:m.undo}")
    world, run_id = looping(undone.replace("timeline:", "failure_policy: compensate\ntimeline:"))
    calls = len(world.steps.calls)
    run_now(world.service.reject(run_id, "too dear", "leo"))
    world.deliver()
    assert world.header(run_id).status == "compensated"
    undoing = world.token(run_id).undoing
    assert undoing is not None
    error = undoing.error
    assert error is not None
    assert (error.type, error.category) == ("max_cost", "governance")
    assert error.message.startswith("the run has cost 0.00001")
    assert error.message.endswith(" USD of 0.00001, and may cost no more: too dear")
    assert len(world.steps.calls) == 2 * calls  # one compensation for each


def test_an_explanation_names_the_approval_and_what_was_spent() -> None:
    world, run_id = looping()
    told = explain(run_now(world.service.standing(run_id)), world.clock.now_ms(), None, {})
    assert not told["nothing_can_wake_it"]
    assert [one["what"] for one in told["wakers"]] == ["call"]
    assert str(told["why"]).startswith("It has cost 0.00001")
    assert "more than its max_cost of 0.00001: it asks for an approval before work" in str(told["why"])


def test_looking_at_the_cost_takes_no_write_and_reads_the_log_a_few_times_only() -> None:
    spent_calls = []
    for definition in (LOOP.replace("max_cost: 0.00001\n", ""), LOOP.replace("0.00001", "5")):
        world, run_id = looping(definition)
        assert world.header(run_id).status == "completed"
        spent_calls.append((world.store.writes, world.store.calls["read_log"]))
    (writes, reads), (limited, more) = spent_calls
    assert limited == writes
    assert more - reads <= 3


def test_a_run_whose_approval_is_not_told_to_a_worker_goes_on_after_the_next_sweep() -> None:
    world, run_id = looping()
    approve(world, run_id)
    world.lose_messages()
    world.clock.set(world.clock.now_ms() + HOUR_MS)
    run_now(world.sweeper.sweep(60_000))
    world.deliver()
    assert world.header(run_id).status == "completed"


def test_a_worker_that_dies_at_any_call_asks_once_and_loses_no_attempt() -> None:
    """Before the call happens, and after it."""
    for done in (False, True):
        at, has_killed = 1, True
        while has_killed:
            world = World(LOOP)
            world.steps.of["work"] = partial(calls_of, world)
            killed = Killed(world.store.inner, at, done)
            world.store.inner = killed
            run_id = ask(world.start)
            deliver(world, world.clock.now_ms() + 5 * MINUTE_MS)
            header = ask(partial(world.header, run_id))  # this read may be the call that dies
            assert header.waiting_for == "approval", at
            ask(partial(approve, world, run_id))
            deliver(world, world.clock.now_ms() + 5 * MINUTE_MS)
            has_killed = killed.stop()
            run_now(world.sweeper.sweep(MINUTE_MS))
            deliver(world, world.clock.now_ms() + HOUR_MS)
            assert world.header(run_id).status == "completed", at
            bodies = [one.body for one in run_now(world.store.read_log(run_id, "0"))]
            assert sum(decode_record(body).kind is Kind.WAITING for body in bodies) == 1, at
            at += 7
        assert at > 60


def test_the_approval_is_beside_the_step_of_a_durable_function_and_its_replay_sees_nothing_of_it(
    tmp_path: Path,
) -> None:
    (tmp_path / "costing.py").write_text(FUNCTION)
    kit = Stepwell(tmp_path)
    run = kit.start("many", {})
    assert (run.status, run.waiting_for) == ("waiting", "approval")
    run.approve("yes")
    assert run.status == "completed"
    assert run.result == list(range(30))
    kit.close()


def test_an_engine_that_forgets_that_it_was_approved_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mutant: the approval does not lift the limit, so the run asks again before the same step."""
    monkeypatch.setattr(ApprovalWait, "resumed", WaitKind.resumed)
    with pytest.raises(AssertionError):
        test_an_approval_without_a_limit_lets_the_run_go_on_to_its_end()


def test_an_engine_that_goes_on_after_a_rejection_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mutant: whatever the answer is, the run goes on."""
    monkeypatch.setattr(spending, "rejected", lambda moment, token: None)
    with pytest.raises(AssertionError):
        test_a_rejection_fails_the_run_and_undoes_what_it_did_where_it_says_so()


@pytest.mark.parametrize("lane", [0, 10])
def test_what_branches_have_spent_counts_before_the_next_step_of_the_run(lane: int) -> None:
    """The root's own few records are far from the limit: its branches, and their lanes, have passed it.

    They were paused for that, and somebody has them go on.
    """
    world = World(FORKED, lane=lane)
    alone = world.start(given={"items": []})
    run_id = world.start(given={"items": list(range(60))})
    world.deliver()
    run_now(world.service.unpause(run_id))
    world.deliver()
    wait = world.token(run_id).parked
    assert wait is not None
    spent = run_now(world.service.surveyed_with_cost(run_now(world.service.standing(run_id))))[1]
    assert (wait.data["type"], wait.data["step"], spent.steps) == ("max_cost", "tell", 60)
    assert world.header(alone).status == "completed"
    run_now(world.service.approve(run_id, None, "ana"))
    world.deliver()
    assert world.token(run_id).result == "tell"


def paused_by(world: World, run_id: str) -> str:
    header = world.header(run_id)
    return header.paused_by if header.paused_ms else ""


def forked(cap: str, width: int, lane: int = 0) -> tuple[World, str]:
    world = World(FORKED.replace("0.000012", cap), lane=lane)
    run_id = world.start(given={"items": list(range(width))})
    world.deliver()
    return world, run_id


@pytest.mark.parametrize(("width", "cap"), [(60, "0.00005"), (400, "0.0002")])
def test_an_open_fork_is_paused_once_its_run_has_cost_more_than_it_may(width: int, cap: str) -> None:
    """Near the limit its worker looks before each step, so that few branches begin beyond it."""
    world, run_id = forked(cap, width)
    begun = len(world.steps.calls)
    assert 25 < begun < 120
    assert (world.header(run_id).status, paused_by(world, run_id)) == ("paused", f"its max_cost of {cap} USD")
    cost = run_now(world.service.surveyed_with_cost(run_now(world.service.standing(run_id))))[1]
    assert cost.steps == begun
    told = explain(run_now(world.service.standing(run_id)), world.clock.now_ms(), None, {})
    assert f"paused by its max_cost of {cap} USD since" in str(told["why"])
    assert not told["nothing_can_wake_it"]


@pytest.mark.parametrize("width", [60, 400])
def test_an_approval_of_a_run_that_is_paused_for_its_cost_is_told_what_has_it_go_on(width: int) -> None:
    world, run_id = forked("0.00001", width)
    with pytest.raises(Conflict) as refused:
        approve(world, run_id)
    assert (refused.value.code, refused.value.hint) == (
        "paused_for_cost",
        "stepwell unpause RUN lets its branches go on",
    )


@pytest.mark.parametrize("lane", [0, 10])
def test_an_unpaused_fork_goes_on_to_its_join_and_the_run_asks_before_its_next_step(lane: int) -> None:
    world, run_id = forked("0.00001", 60, lane)
    assert (world.header(run_id).status, world.steps.calls) == ("paused", [])
    run_now(world.service.unpause(run_id))
    world.deliver()
    assert (world.header(run_id).waiting_for, len(world.steps.calls)) == ("approval", 60)
    run_now(world.service.approve(run_id, None, "ana"))
    world.deliver()
    assert world.header(run_id).status == "completed"


def test_a_branch_of_a_run_that_a_person_paused_too_asks_again() -> None:
    """The last pause tells whether the limit counts: it does again, which is on the safe side."""
    world, run_id = forked("0.00001", 60)
    run_now(world.service.unpause(run_id))
    run_now(world.service.pause(run_id, "wait", "kim"))
    run_now(world.service.unpause(run_id))
    world.deliver()
    assert (paused_by(world, run_id), world.steps.calls) == ("its max_cost of 0.00001 USD", [])


def test_a_later_fork_is_paused_at_the_limit_that_an_approval_has_set() -> None:
    twice = FORKED.replace("tell: {run: python:m.tell}", """tell: {run: python:m.tell, transitions: [{to: again}]}
  again: {transitions: [{to: more, foreach: "{{ input.items }}"}]}
  more: {run: python:m.more, transitions: [{to: ended}]}
  ended: {fan_in: {merge: append, target: more}}""").replace("0.000012", "0.00001")  # fmt: skip
    world = World(twice)
    run_id = world.start(given={"items": list(range(60))})
    world.deliver()
    run_now(world.service.unpause(run_id))
    world.deliver()
    run_now(world.service.approve(run_id, {"max_cost": 0.00014}, "ana"))
    world.deliver()
    assert paused_by(world, run_id) == "its max_cost of 0.00014 USD"
    assert 61 < len(world.steps.calls) < 100
    run_now(world.service.unpause(run_id))
    world.deliver()
    assert (world.header(run_id).status, len(world.steps.calls)) == ("completed", 121)


def test_an_approval_without_a_limit_counts_for_later_forks_too() -> None:
    begin = "begin: {run: python:m.begin, transitions:"
    world = World(FORKED.replace("begin: {transitions:", begin).replace("0.000012", "0.000001"))
    run_id = world.start(given={"items": list(range(60))})
    world.deliver()
    run_now(world.service.approve(run_id, None, "ana"))
    world.deliver()
    assert (world.header(run_id).status, len(world.steps.calls)) == ("completed", 62)


def test_a_fork_without_a_limit_pays_nothing_for_it_and_one_far_from_it_a_few_reads() -> None:
    counts = []
    for cap in ("", "max_cost: 5\n"):
        world = World(FORKED.replace("max_cost: 0.000012\n", cap))
        run_id = world.start(given={"items": list(range(400))})
        world.deliver()
        assert world.header(run_id).status == "completed"
        counts.append((world.store.writes, sum(world.store.calls.values())))
    (writes, calls), (limited, more) = counts
    assert limited == writes
    assert more - calls <= 60


@pytest.mark.parametrize(
    "at_once", ["ctx.map(work, range(30))", "asyncio.gather(*(ctx.step(work, n) for n in range(30)))"]
)
def test_the_branches_and_tasks_of_a_function_are_paused_and_go_on_too(tmp_path: Path, at_once: str) -> None:
    code = FUNCTION.replace("[await ctx.step(work, n) for n in range(30)]", f"await {at_once}")
    (tmp_path / "mapping.py").write_text("import asyncio\n" + code.replace("0.00001", "0.0000001"))
    kit = Stepwell(tmp_path)
    run = kit.start("many", {})
    assert run.status == "paused"
    run.unpause()
    assert run.status == "completed"
    assert run.result == list(range(30))
    kit.close()


def test_an_engine_that_forgets_that_it_was_unpaused_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mutant: the limit counts again after the pause, so the fork never goes on."""
    monkeypatch.setattr(spending, "_pauser", lambda cap: object())
    with pytest.raises(AssertionError):
        test_an_unpaused_fork_goes_on_to_its_join_and_the_run_asks_before_its_next_step(0)
