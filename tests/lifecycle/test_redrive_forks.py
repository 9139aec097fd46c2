"""Redriving forks and DAGs: the branches that completed are kept, and only the others go on."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any
from unittest import mock

import pytest

from stepwell.engine.forks import lines
from stepwell.engine.forks.branches import span_of
from stepwell.engine.records import Kind
from stepwell.errors import Conflict, PortError
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.notify.telling import Teller
from tests.lifecycle.kills import Killer
from tests.lifecycle.test_redrive import redriven, refusal
from tests.runtime.kit import World, fails, graph_of

EACH = """
workflow: flow
nodes:
  begin: {run: python:shop.begin, transitions: [{to: pick, foreach: "ITEMS"}]}
  pick: {run: python:shop.pick, input: "{{ state.item }}", transitions: [{to: pack}]}
  pack: {run: python:shop.pack, input: "{{ state.item }}", transitions: [{to: join}]}
  join: {fan_in: {merge: append}, transitions: [{to: ship}]}
  ship: {run: python:shop.ship}
"""
DAG = """
workflow: flow
steps:
  - {name: account, run: python:crm.account}
  - {name: provision, run: python:crm.provision, depends_on: [account]}
  - {name: welcome, run: python:crm.welcome, depends_on: [account]}
  - {name: report, run: python:crm.report, depends_on: [provision, welcome]}
"""


def flow(items: str | Iterable[int] = (0, 1, 2), **changes: str) -> str:
    text = EACH.replace("ITEMS", items if isinstance(items, str) else str(list(items)))
    for was, now in changes.items():
        text = text.replace(was, now)
    return text


class Shop:
    """Steps that fail for some items until they are mended, and what each of them was called for."""

    def __init__(self, text: str, *broken: object) -> None:
        """`broken`: (node, item) or a node."""
        self.world, self.broken = World(text), set(broken)
        for node in self.world.catalog.named("flow").nodes:
            self.world.steps.of[node] = self._attempt
        self.run_id = self.world.start(given={})
        self.world.pass_time(600_000)
        self.broken.clear()

    def _attempt(self, call: Any) -> Any:
        item = call.input if isinstance(call.input, int) else None
        return fails() if {call.node, (call.node, item)} & self.broken else f"{call.node} {item}"

    def ran(self, run_id: str) -> list[tuple[str, Any]]:
        calls = [call for call in self.world.steps.calls if call.run_id == run_id]
        return [(call.node, call.input if isinstance(call.input, int) else None) for call in calls]

    def nodes(self, run_id: str) -> list[str]:
        return [node for node, _ in self.ran(run_id)]

    def redriven(self, **options: Any) -> str:
        again = redriven(self.world, self.run_id, **options)
        self.world.pass_time(600_000)
        return again


def test_only_the_branches_that_did_not_complete_go_on_and_each_at_the_step_that_failed() -> None:
    shop = Shop(flow(), ("pack", 1))
    assert shop.ran(shop.run_id) == [("begin", None), ("pick", 0), ("pack", 0), ("pick", 1), ("pack", 1)]
    again = shop.redriven()
    assert shop.ran(again) == [("pack", 1), ("pick", 2), ("pack", 2), ("ship", None)]
    joined = [{"pick": f"pick {item}", "pack": f"pack {item}"} for item in range(3)]
    token = shop.world.token(again)
    assert (shop.world.header(again).status, token.scope["join"], token.calls) == ("completed", joined, 4)


@pytest.mark.parametrize(("text", "step"), [(DAG, "welcome"), (flow(), "pack")], ids=["dag", "fork"])
def test_a_redrive_from_a_step_of_a_branch_says_to_leave_the_step_out(text: str, step: str) -> None:
    """The history shows that the run came there, and the branch goes on there by itself."""
    shop = Shop(text, step)
    with pytest.raises(Conflict, match="is a step of a fork's branches") as refused:
        shop.redriven(since=step)
    assert refused.value.code == "failed_in_fork"
    assert "leave out `from`" in str(refused.value.hint)
    assert ("redrive it `from` begin" in str(refused.value.hint)) == (step == "pack")  # a DAG is its run's first fork
    assert refusal(shop.world, shop.run_id, since="nowhere") == "unknown_step"
    assert step in shop.nodes(shop.redriven())


def test_a_branch_keeps_the_idempotency_key_of_the_step_that_failed_however_often_it_is_redriven() -> None:
    shop = Shop(flow(), ("pack", 1))
    shop.broken.add(("pack", 1))
    second = shop.redriven()
    assert shop.world.header(second).status == "failed"
    shop.broken.clear()
    third = redriven(shop.world, second)
    shop.world.pass_time(600_000)
    assert shop.world.header(third).status == "completed"
    assert shop.ran(third)[0] == ("pack", 1)
    keys = {call.key for call in shop.world.steps.calls if (call.node, call.input) == ("pack", 1)}
    assert keys == {f"{shop.run_id}:0/0.1:1"}
    fresh = {call.key for call in shop.world.steps.calls if (call.node, call.input) == ("pack", 2)}
    assert len(fresh) == 1


def test_a_fork_of_a_thousand_items_goes_on_with_the_one_that_failed() -> None:
    shop = Shop(flow(range(1_000)), ("pack", 999))
    assert shop.world.header(shop.run_id).status == "failed"
    shop.world.store.calls.clear()
    again = redriven(shop.world, shop.run_id)
    writes = shop.world.store.writes
    assert writes["append"] + writes["arrive"] == 3_001  # one for each record, each branch, and REDRIVEN
    shop.world.pass_time(600_000)
    assert shop.ran(again) == [("pack", 999), ("ship", None)]
    assert len(shop.world.token(again).scope["join"]) == 1_000


def test_a_log_does_not_grow_with_the_redrives_of_a_fork_that_keeps_failing() -> None:
    """The fork is reopened in the same slot each time, so its branches keep their ids."""
    shop = Shop(flow(), ("pack", 1))
    shop.broken.add(("pack", 1))
    second = shop.redriven()
    third = redriven(shop.world, second)
    shop.world.pass_time(600_000)
    assert [shop.world.header(one).status for one in (second, third)] == ["failed", "failed"]
    assert shop.world.token(third).slot == shop.world.token(second).slot


def test_a_branch_that_was_cancelled_in_its_first_step_keeps_the_key_of_that_step() -> None:
    shop = Shop(flow(), ("pick", 1))
    again = shop.redriven()
    keys = {call.key for call in shop.world.steps.calls if (call.node, call.input) == ("pick", 2)}
    assert keys == {f"{shop.run_id}:0/0.2:0"}
    assert shop.world.header(again).status == "completed"


def test_a_dag_runs_again_only_the_steps_that_failed_and_those_behind_them() -> None:
    shop = Shop(DAG, "welcome")
    assert sorted(shop.nodes(shop.run_id)) == ["account", "provision", "welcome"]
    again = shop.redriven()
    assert shop.nodes(again) == ["welcome", "report"]
    result = shop.world.token(again).result
    assert set(result) == {"account", "provision", "welcome", "report"}


def test_a_dag_whose_version_has_other_steps_is_refused() -> None:
    shop = Shop(DAG, "welcome")
    shop.world.catalog.replace([graph_of(DAG.replace("report", "summary"))])
    assert refusal(shop.world, shop.run_id) == "step_gone"


def test_a_version_that_forks_over_something_else_is_refused() -> None:
    shop = Shop(flow(), ("pack", 1))
    shop.world.catalog.replace([graph_of(flow((0, 1)))])
    assert refusal(shop.world, shop.run_id) == "step_gone"
    shop.world.catalog.replace([graph_of(flow().replace("shop.pack", "shop.wrap"))])
    assert shop.world.header(shop.redriven()).status == "completed"


def test_the_items_of_a_fork_are_those_of_the_failed_run() -> None:
    """Also where they depend on the time at which it forked."""
    shop = Shop(flow("[now, now]"), "ship")  # the whole run once, to know that it is a workflow
    assert shop.world.header(shop.run_id).status == "failed"
    shop = Shop(flow("[now, now, now]").replace("{{ state.item }}", "{{ {'x': state.item} }}"), "pack")
    shop.world.pass_time(3_600_000)
    again = shop.redriven()
    items = {
        str(call.input["x"]) for call in shop.world.steps.calls if isinstance(call.input, dict) and "x" in call.input
    }
    assert shop.world.header(again).status == "completed"
    assert len(items) == 1


@pytest.mark.parametrize(
    ("most", "need", "rejected"), [(1, 6, (1, 3)), (2, 6, (1, 3)), (3, 6, (1, 3)), (1, 5, (0, 1, 3))]
)
def test_as_many_branches_are_under_way_as_the_fork_allows_and_no_more(
    most: int, need: int, rejected: tuple[int, ...]
) -> None:
    """A branch that was kept takes no place in the line, wherever it stood."""
    lined = flow(range(7)).replace(']"}]', f']", max_concurrency: {most}}}]')
    lined = lined.replace("append", f"append, policy: {{m_of_n: {need}}}")
    lined = lined.replace('run: python:shop.pick, input: "{{ state.item }}"', "wait: {for: approval, timeout: 1h}")
    shop = Shop(lined)
    answered(shop, shop.run_id, "0/0", rejected)
    assert shop.world.header(shop.run_id).status == "failed"
    kept = {item for node, item in shop.ran(shop.run_id) if node == "pack"}
    again = shop.redriven()
    under_way = answered(shop, again, "0/2")
    assert shop.world.header(again).status == "completed"
    assert under_way == [min(most, 7 - ended) for ended in range(len(kept), need)]
    assert kept
    assert not kept & {item for _, item in shop.ran(again)}


def test_a_line_in_which_kept_branches_have_places_is_noticed() -> None:
    with mock.patch.object(lines, "_order_of", span_of), pytest.raises(AssertionError):
        test_as_many_branches_are_under_way_as_the_fork_allows_and_no_more(1, 5, (0, 1, 3))


def answered(shop: Shop, run_id: str, fork: str, rejected: tuple[int, ...] = ()) -> list[int]:
    """Answers the approvals of the branches, one by one. How many were under way each time."""
    turns: list[int] = []
    while not shop.world.header(run_id).status.terminal:
        branches = run_now(shop.world.service.branches(run_id, fork, 0, 10))
        waiting = [one.token.id for one in branches if one.token.parked and one.token.resumption is None]
        next_one = waiting[0 if turns else -1]
        turns.append(len(waiting))
        answer = shop.world.service.reject if int(next_one[-1]) in rejected else shop.world.service.approve
        run_now(answer(run_id, wait=next_one))
        shop.world.pass_time(1_000)
    return turns


def test_a_fork_in_a_branch_goes_on_in_its_turn() -> None:
    shop = Shop("""
workflow: flow
nodes:
  begin: {run: python:shop.begin, transitions: [{to: pick, foreach: "[0, 1]", as: outer}]}
  pick: {run: python:shop.pick, input: "{{ state.outer }}", transitions: [{to: pack, foreach: "INNER"}]}
  pack: {run: python:shop.pack, input: "{{ state.item }}", transitions: [{to: inner}]}
  inner: {fan_in: {merge: append}, transitions: [{to: wrap}]}
  wrap: {run: python:shop.wrap, input: "{{ state.outer }}", transitions: [{to: join}]}
  join: {fan_in: {merge: append}}
""".replace("INNER", "[10 * state.outer, 10 * state.outer + 1]"), ("pack", 11))  # fmt: skip
    done = {("begin", None), ("pick", 0), ("pack", 0), ("pack", 1), ("wrap", 0), ("pick", 1), ("pack", 10)}
    assert set(shop.ran(shop.run_id)) == {*done, ("pack", 11)}
    again = shop.redriven()
    assert shop.ran(again) == [("pack", 11), ("wrap", 1)]
    assert [sorted(one) for one in shop.world.token(again).scope["join"]] == [["inner", "pick", "wrap"]] * 2
    key = {call.key for call in shop.world.steps.calls if (call.node, call.input) == ("pack", 11)}
    assert key == {f"{shop.run_id}:0/0.1/0.1:0"}


def test_a_fork_of_many_pages_keeps_what_completed_and_joins() -> None:
    shop = Shop(flow(range(230)), ("pack", 150))
    completed = {item for node, item in shop.ran(shop.run_id) if node == "pack"} - {150}
    again = shop.redriven()
    packed = [item for node, item in shop.ran(again) if node == "pack"]
    assert shop.world.header(again).status == "completed"
    assert sorted(packed) == sorted(set(range(230)) - completed)
    assert len(completed) > 100
    assert len(shop.world.token(again).scope["join"]) == 230


def test_a_run_that_was_cancelled_when_all_its_branches_had_completed_joins() -> None:
    """Nobody else would: no branch of it arrives any more."""
    shop = Shop(flow(), "ship")
    world, run_id = shop.world, shop.world.start(given={})

    def end(*_: Any) -> None:
        run_now(world.service.terminate(run_id))

    def last(call: Any) -> Any:
        if call.input == 2:
            world.store.before["arrive"] = end
        return call.node

    world.steps.of["pack"] = last
    world.pass_time(600_000)
    assert world.header(run_id).status == "failed"
    again = redriven(world, run_id)
    world.pass_time(600_000)
    assert (world.header(again).status, shop.nodes(again)) == ("completed", ["ship"])


@pytest.mark.parametrize("text", [flow(), DAG], ids=["a fork", "a DAG"])
def test_a_redriven_run_that_was_cancelled_before_its_fork_was_reopened_keeps_what_completed(text: str) -> None:
    """It may have waited for its workflow's `concurrency` until then."""
    shop = Shop(text, ("pack", 1), "welcome")
    again = redriven(shop.world, shop.run_id)
    run_now(shop.world.service.cancel(again))
    third = redriven(shop.world, again)
    shop.world.pass_time(600_000)
    assert shop.world.header(third).status == "completed"
    assert shop.ran(again) == []
    expected = [("pack", 1), ("pick", 2), ("pack", 2), ("ship", None)] if text != DAG else None
    assert shop.ran(third) == (expected or [("welcome", None), ("report", None)])


def test_a_redriven_run_that_was_cancelled_before_its_fork_was_reopened_is_deleted_whole() -> None:
    shop = Shop(flow(), ("pack", 1))
    again = redriven(shop.world, shop.run_id)
    run_now(shop.world.service.cancel(again))
    assert run_now(shop.world.store.read_log(again, "0/2.0"))
    run_now(shop.world.parts.eraser.delete(again))
    assert not any(run_now(shop.world.store.read_log(again, f"0/2.{index}")) for index in range(3))


def test_a_join_that_needs_some_keeps_those_that_came() -> None:
    shop = Shop(flow(range(5)).replace("merge: append", "merge: append, policy: {m_of_n: 4}"), ("pack", 1), ("pack", 3))
    again = shop.redriven()
    assert shop.world.header(again).status == "completed"
    assert not {item for node, item in shop.ran(again)} & {0, 2}


def test_a_wait_of_a_branch_begins_anew_and_one_that_ended_is_kept() -> None:
    waits = flow().replace('run: python:shop.pick, input: "{{ state.item }}"', "wait: {for: approval, timeout: 1h}")
    shop = Shop(waits, ("pack", 0))
    run_now(shop.world.service.approve(shop.run_id, wait="0/0.0"))
    shop.broken.add(("pack", 0))
    shop.world.pass_time(60_000)
    shop.broken.clear()
    assert shop.world.header(shop.run_id).status == "failed"
    again = shop.redriven()
    assert shop.ran(again) == [("pack", 0)]
    assert shop.world.header(again).status == "waiting"
    for branch in ("0/2.1", "0/2.2"):
        run_now(shop.world.service.approve(again, wait=branch))
    shop.world.pass_time(60_000)
    assert shop.world.header(again).status == "completed"


def test_the_history_tells_what_was_kept_and_subscribers_hear_only_what_is_new() -> None:
    shop = Shop(flow(), ("pack", 1))
    again = shop.redriven()
    records = run_now(shop.world.service.records(again))
    assert [record.kind for record in records][:3] == [Kind.STEP, Kind.REDRIVEN, Kind.REOPENED]
    narrator = run_now(shop.world.service.narrator(again))

    async def told() -> list[Any]:
        return [entry async for entry in narrator.entries()]

    entries = run_now(told())
    reopened = next(entry for entry in entries if entry.type == "fork.reopened")
    assert reopened.data == {"width": 3, "kept": 1, "join": "join"}
    assert [entry.token for entry in entries if entry.type == "branch.redriven"] == ["0/2.1", "0/2.2"]
    assert sum(entry.type == "branch.completed" for entry in entries) == 3
    teller, heard = (
        Teller(shop.world.store, shop.world.store, shop.world.store, shop.world.blobs),
        list[tuple[str, str]](),
    )
    for token in ("0/2.0", "0/2.1", "0", "0/2.1"):
        for saved in run_now(shop.world.store.read_log(again, token)):
            heard += [(token, one.entry.type) for one in run_now(teller.appended(again, token, saved.slot, saved.body))]
    assert ("0/2.0", "branch.completed") not in heard
    assert ("0/2.1", "branch.completed") in heard
    assert ("0", "run.redriven") in heard


def test_what_kept_branches_did_is_undone_when_the_redriven_run_is_compensated() -> None:
    saga = flow().replace(
        "pack: {run: python:shop.pack,", "pack: {run: python:shop.pack, compensate: {run: python:shop.undo},"
    )
    shop = Shop(saga, ("pack", 1))
    shop.broken.add("ship")
    shop.world.catalog.replace([graph_of(saga.replace("workflow: flow", "workflow: flow\nfailure_policy: compensate"))])
    again = shop.redriven()
    assert shop.world.header(again).status == "compensated"
    assert shop.nodes(again).count("pack.compensate") == 3
    assert not any(run_now(shop.world.store.read_log(again, f"0/0.{index}")) for index in range(3))


def test_a_redrive_in_a_fork_costs_a_write_for_each_record_and_each_arrival() -> None:
    """The header; two records for each branch that completed and one that went well; three REDRIVEN; an arrival."""
    shop = Shop(flow(), ("pack", 1))
    shop.world.store.calls.clear()
    redriven(shop.world, shop.run_id)
    assert shop.world.store.writes == {"create_run": 1, "append": 1 + 2 + 1 + 3, "arrive": 1}


@pytest.mark.parametrize("done", [False, True], ids=["before it", "after it"])
@pytest.mark.parametrize("text", [flow(), DAG], ids=["a fork", "a DAG"])
def test_a_caller_that_dies_at_any_call_and_asks_again_has_one_run_that_goes_on(text: str, done: bool) -> None:
    at, is_killed = 1, True
    while is_killed:
        shop = Shop(text, ("pack", 1), "welcome")
        killer = Killer(shop.world, at, done)
        with suppress(PortError):
            redriven(shop.world, shop.run_id)
        is_killed, at = killer.has_killed, at + 1
        if not is_killed:
            break
        shop.world.pass_time(60_000)  # whoever the dead one woke goes first
        again = shop.redriven()
        assert shop.world.header(again).status == "completed"
        expected = [("pack", 1), ("pick", 2), ("pack", 2), ("ship", None)] if text != DAG else None
        assert shop.ran(again) == (expected or [("welcome", None), ("report", None)])
    assert at > 12
