"""Forking runs: a new run goes on from any slot of another, with something changed."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from stepwell.definition.graph import Json
from stepwell.engine.records import Kind
from stepwell.errors import Conflict, InvalidInput, NotFound, PortError
from stepwell.runtime.calls.run_forks import RunFork
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.steps.port import StepCall
from tests.lifecycle.kills import Killer
from tests.lifecycle.test_redrive import ran
from tests.lifecycle.test_redrive_forks import Shop, flow
from tests.runtime.kit import World, fails, graph_of

FLOW = """
workflow: flow
nodes:
  charge: {run: python:shop.charge, transitions: [{to: decide}]}
  decide: {run: python:shop.decide, transitions: [{to: ship, when: "state.decide == 'yes'"}, {to: refund}]}
  ship: {run: python:shop.ship, input: {limit: "{{ has(state.limit) ? state.limit : input.limit }}"}}
  refund: {run: python:shop.refund}
"""


def _says(answer: Json, _: StepCall) -> Json:
    return answer


def world_of(text: str = FLOW, **answers: Any) -> tuple[World, str]:
    world = World(text)
    for node, answer in answers.items():
        world.steps.of[node] = partial(_says, answer)
    run_id = world.start(given={"limit": 1})
    world.pass_time(60_000)
    return world, run_id


def forked(world: World, run_id: str, at: int, **asked: Any) -> str:
    old = run_now(world.service.header(run_id))
    again = run_now(world.service.forker.fork(old, RunFork(at, **asked))).header.run_id
    world.pass_time(60_000)
    return again


def refusal(world: World, run_id: str, at: int, **asked: Any) -> str:
    with pytest.raises((Conflict, InvalidInput, NotFound)) as refused:
        forked(world, run_id, at, **asked)
    return refused.value.code


def foretold(world: World, run_id: str, at: int, **asked: Any) -> Any:
    old = run_now(world.service.header(run_id))
    return run_now(world.service.forker.foretold(old, RunFork(at, **asked)))


def test_the_fork_keeps_what_is_before_the_slot_and_runs_the_rest_with_keys_of_its_own() -> None:
    world, run_id = world_of(decide="yes")
    again = forked(world, run_id, 1)
    assert (ran(world, run_id), ran(world, again)) == (["charge", "decide", "ship"], ["decide", "ship"])
    header = world.header(again)
    assert (header.status, header.origin, header.input) == ("completed", f"fork:{run_id}", {"limit": 1})
    assert world.header(run_id).status == "completed"
    assert len({call.key for call in world.steps.calls}) == len(world.steps.calls)


def test_another_input_another_state_and_another_result_count_from_there_on() -> None:
    world, run_id = world_of(decide="no")
    by_result = forked(world, run_id, 1, result=("yes",))
    by_state = forked(world, run_id, 1, result=("yes",), state={"limit": 7})
    by_input = forked(world, run_id, 0, input=({"limit": 9},), result=("paid",))
    assert (ran(world, run_id), ran(world, by_result)) == (["charge", "decide", "refund"], ["ship"])
    assert ran(world, by_input) == ["decide", "refund"]
    assert world.token(by_input).scope["charge"] == "paid"
    limits = {call.run_id: call.input for call in world.steps.calls if call.node == "ship"}
    assert (limits[by_result], limits[by_state]) == ({"limit": 1}, {"limit": 7})
    assert world.header(by_input).input == {"limit": 9}


def test_a_slot_amid_a_step_or_a_wait_means_where_that_began() -> None:
    text = FLOW.replace("run: python:shop.decide", "wait: {for: approval, timeout: 1d}")
    world, run_id = world_of(text)
    run_now(world.service.approve(run_id))
    world.pass_time(60_000)
    for at in (1, 2, 3):
        again = forked(world, run_id, at, key=str(at))
        assert world.header(again).status == "waiting"
        assert ran(world, again) == []


def test_a_run_that_is_under_way_can_be_forked_and_is_left_alone() -> None:
    world, run_id = world_of(FLOW.replace("run: python:shop.decide", "wait: {for: approval, timeout: 1d}"))
    again = forked(world, run_id, 1)
    assert (world.header(run_id).status, world.header(again).status) == ("waiting", "waiting")
    run_now(world.service.approve(again))
    world.pass_time(60_000)
    assert (world.header(run_id).status, world.header(again).status) == ("waiting", "completed")


def test_a_join_before_the_slot_is_kept_and_one_after_it_is_done_again() -> None:
    shop = Shop(flow())
    after, amid = forked(shop.world, shop.run_id, 2), forked(shop.world, shop.run_id, 1)
    assert shop.nodes(after) == ["ship"]
    assert shop.nodes(amid) == ["begin", *["pick", "pack"] * 3, "ship"]
    assert len(run_now(shop.world.service.branches(after, "0/0", 0, 10))) == 3


def test_equal_calls_make_one_run_and_other_keys_others() -> None:
    world, run_id = world_of(decide="yes")
    first, second = forked(world, run_id, 1), forked(world, run_id, 1)
    assert (first == second, ran(world, first)) == (True, ["decide", "ship"])
    assert len({first, forked(world, run_id, 1, key="a"), forked(world, run_id, 1, key="b")}) == 3
    assert refusal(world, run_id, 0, key="a") == "key_reused"


def test_another_workflow_can_go_on_if_it_has_the_step() -> None:
    world, run_id = world_of(decide="yes")
    other = FLOW.replace("workflow: flow", "workflow: other")
    world.catalog.replace(
        [graph_of(FLOW), graph_of(other), graph_of(other.replace("other", "third").replace("decide", "d"))]
    )
    again = forked(world, run_id, 1, workflow="other")
    assert (world.header(again).workflow, ran(world, again)) == ("other", ["decide", "ship"])
    assert refusal(world, run_id, 1, workflow="third") == "step_gone"


def test_the_old_input_has_to_fit_the_other_workflow() -> None:
    world, run_id = world_of(decide="yes")
    other = FLOW.replace("workflow: flow", "workflow: other\ninput_schema: {required: [customer]}")
    world.catalog.replace([graph_of(FLOW), graph_of(other)])
    assert refusal(world, run_id, 1, workflow="other") == "invalid_input"
    again = forked(world, run_id, 1, workflow="other", input=({"customer": "ana", "limit": 1},))
    assert world.header(again).workflow == "other"


def test_what_means_nothing_there_is_refused() -> None:
    world, run_id = world_of(FLOW.replace("run: python:shop.decide", "wait: {for: approval, timeout: 1d}"))
    assert refusal(world, run_id, 9) == "unknown_slot"
    assert refusal(world, run_id, 1, result=("yes",)) == "no_step"
    assert refusal(world, run_id, 1, version="sha256:none") == "unknown_version"


def test_a_slot_that_the_run_does_not_have_is_told_with_the_count_of_its_records() -> None:
    world = World("workflow: flow\ntimeline: [{name: charge, run: python:shop.charge}]")
    run_id = world.start()
    for steps, told in ((False, "0 records"), (True, "1 record")):
        if steps:
            world.deliver()
        with pytest.raises(InvalidInput) as refused:
            foretold(world, run_id, 9)
        assert refused.value.message == f"the run has no slot 9: it has {told}"


def test_a_run_that_held_a_lock_there_and_one_that_was_compensated_are_refused() -> None:
    world, run_id = world_of(FLOW.replace("workflow: flow", "workflow: flow\nlock: till"))
    assert refusal(world, run_id, 4) == "held_lock"
    saga = FLOW.replace("flow\n", "flow\nfailure_policy: compensate\n")
    world = World(saga.replace("shop.charge", "shop.charge, compensate: {run: python:shop.undo}"))
    world.steps.of["decide"] = lambda call: fails()
    run_id = world.start(given={"limit": 1})
    world.pass_time(60_000)
    assert world.header(run_id).status == "compensated"
    assert refusal(world, run_id, 0) == "was_compensated"


def test_a_run_that_is_being_undone_or_is_so_in_part_is_refused() -> None:
    saga = FLOW.replace("flow\n", "flow\nfailure_policy: compensate\n")
    undo = "compensate: {run: python:shop.undo, retry: {max_retries: 1, initial_delay: 10m}}"
    world = World(saga.replace("shop.charge", f"shop.charge, {undo}"))
    world.steps.of.update(
        {"decide": lambda call: fails(), "charge.compensate": lambda call: fails(category="transient")}
    )
    run_id = world.start(given={"limit": 1})
    world.pass_time(60_000)
    assert world.header(run_id).status == "compensating"
    assert refusal(world, run_id, 0) == "compensating"
    world.pass_time(3_600_000)
    assert world.header(run_id).status == "failed"
    assert refusal(world, run_id, 0) == "partly_undone"


def test_the_history_says_where_the_fork_begins_and_what_was_changed() -> None:
    world, run_id = world_of(decide="no")
    again = forked(world, run_id, 1, result=("yes",), state={"limit": 7}, who="ana")
    assert [record.kind for record in run_now(world.service.records(again))][:3] == [
        Kind.STEP,
        Kind.REDRIVEN,
        Kind.STEP,
    ]
    narrator = run_now(world.service.narrator(again))

    async def told() -> list[Any]:
        return [entry async for entry in narrator.entries()]

    entry = next(entry for entry in run_now(told()) if entry.type == "run.forked")
    assert (entry.by, entry.data) == ("ana", {"run_id": run_id, "state": ["limit"], "result": "yes"})


def test_a_dry_run_tells_the_way_from_the_log_and_does_nothing() -> None:
    world, run_id = world_of(decide="no")
    world.store.calls.clear()
    calls = len(world.steps.calls)
    told = foretold(world, run_id, 1)
    assert [(one["step"], one["by"]) for one in told["steps"]] == [("decide", "log"), ("refund", "log")]
    assert (told["stops"], told["status"], told["kept"]) == ("end", "completed", 1)
    other = foretold(world, run_id, 1, result=("yes",))
    assert [(one["step"], one["by"]) for one in other["steps"]] == [("decide", "caller")]
    assert (other["stops"], other["stops_at"]) == ("step", "ship")
    assert (world.store.writes, len(world.steps.calls)) == ({}, calls)


def test_a_dry_run_passes_waits_that_ended_and_stops_at_a_fork() -> None:
    world, run_id = world_of(FLOW.replace("run: python:shop.decide", "wait: {for: approval, timeout: 1d}"))
    assert foretold(world, run_id, 0)["stops"] == "wait"
    run_now(world.service.approve(run_id))
    world.pass_time(60_000)
    told = foretold(world, run_id, 0)
    assert told["status"] == "completed"
    assert {one["step"] for one in told["steps"]} == {"charge", "decide", "refund"}
    shop = Shop(flow())
    assert foretold(shop.world, shop.run_id, 0)["stops"] == "fork"


def test_a_dry_run_of_a_fork_has_the_whole_timeout_of_the_run_before_it() -> None:
    """As the run that the fork makes has: it begins when it is made."""
    world, run_id = world_of(FLOW.replace("nodes:", "timeout: 1h\nnodes:"), decide="no")
    world.pass_time(2 * 3_600_000)
    assert foretold(world, run_id, 1)["status"] == "completed"
    assert world.header(forked(world, run_id, 1)).status == "completed"


def test_a_dry_run_stops_where_the_run_would_be_undone() -> None:
    text = FLOW.replace("nodes:", "failure_policy: compensate\nnodes:").replace(
        "{to: refund}", "{to: refund, when: 'false'}"
    )
    world, run_id = world_of(text, decide="yes")
    told = foretold(world, run_id, 1, result=("no",))
    assert (told["stops"], told["stops_at"], told["status"]) == ("compensation", "decide", None)
    assert [(one["step"], one["by"]) for one in told["steps"]] == [("decide", "caller")]


@pytest.mark.parametrize("done", [False, True], ids=["before it", "after it"])
def test_a_caller_that_dies_at_any_call_and_asks_again_has_one_fork(done: bool) -> None:
    at, is_killed = 1, True
    while is_killed:
        world, run_id = world_of(decide="no")
        old = world.header(run_id)
        killer = Killer(world, at, done)
        try:
            run_now(world.service.forker.fork(old, RunFork(1, result=("yes",))))
        except PortError:
            assert killer.has_killed
        is_killed, at = killer.has_killed, at + 1
        if not is_killed:
            break
        world.pass_time(60_000)
        again = forked(world, run_id, 1, result=("yes",))
        assert (world.header(again).status, ran(world, again)) == ("completed", ["ship"])
    assert at > 6
