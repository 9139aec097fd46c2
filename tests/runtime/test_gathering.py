"""Starts that become one run: `debounce` keeps the last input, `batch` all of them."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell.api.runs.explain import explain
from stepwell.api.runs.views import run_view
from stepwell.definition.graph import Json
from stepwell.engine.entries import Entry
from stepwell.errors import Conflict, InvalidInput, RunDeleted
from stepwell.limits import HOUR_MS, MINUTE_MS, SECOND_MS
from stepwell.runtime.calls.run_forks import RunFork
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.starts.starting import Start, Started
from tests.runtime.kit import World, graph_of

DEBOUNCE = """
workflow: index
debounce: {period: 30s, max_delay: 2m, key: "{{ input.page }}"}
timeline: [{name: last, run: python:m.last}]
"""
BATCH = """
workflow: mail
batch: {max_size: 3, max_delay: 1m}
input_schema: {type: object, required: [to]}
timeline: [{name: last, run: python:m.last, input: {to: "{{ input.items }}"}}]
"""


def begun(world: World, given: Json, *, key: str = "", **options: Any) -> Started:
    workflow = next(iter(world.catalog.current))
    return run_now(world.service.start(Start(workflow, given, key=key, **options)))


def history(world: World, run_id: str) -> list[Entry]:
    async def read() -> list[Entry]:
        return [entry async for entry in (await world.service.narrator(run_id)).entries()]

    return run_now(read())


def inputs(world: World) -> list[Any]:
    return [call.input for call in world.steps.calls]


def test_starts_of_one_key_within_the_period_become_one_run_with_the_last_input() -> None:
    world = World(DEBOUNCE)
    first = begun(world, {"page": "a", "text": 1})
    world.pass_time(20 * SECOND_MS)
    second = begun(world, {"page": "a", "text": 2})
    world.pass_time(20 * SECOND_MS)
    third = begun(world, {"page": "a", "text": 3})
    assert (first.created, first.folded) == (True, False)
    assert [(one.created, one.folded) for one in (second, third)] == [(False, True)] * 2
    assert {one.header.run_id for one in (first, second, third)} == {first.header.run_id}
    world.pass_time(29 * SECOND_MS)
    assert inputs(world) == []
    world.pass_time(1 * SECOND_MS)
    assert inputs(world) == [{"page": "a", "text": 3}]
    assert world.header(first.header.run_id).status == "completed"


def test_a_start_whose_open_run_was_deleted_becomes_another_run() -> None:
    world = World(DEBOUNCE)
    first = begun(world, {"page": "a", "text": 1}, key="k")
    run_now(world.parts.eraser.delete(first.header.run_id, force=True))
    second = begun(world, {"page": "a", "text": 2})
    assert (second.created, second.header.run_id == first.header.run_id) == (True, False)
    with pytest.raises(RunDeleted):
        begun(world, {"page": "a", "text": 1}, key="k")
    world.pass_time(HOUR_MS)
    assert inputs(world) == [{"page": "a", "text": 2}]


def test_a_debounce_begins_at_its_longest_delay_though_starts_go_on() -> None:
    world = World(DEBOUNCE)
    for number in range(13):
        begun(world, {"page": "a", "text": number})
        world.pass_time(10 * SECOND_MS)
    assert [one["text"] for one in inputs(world)] == [11]
    world.pass_time(HOUR_MS)
    assert [one["text"] for one in inputs(world)] == [11, 12]


def test_each_key_has_a_run_of_its_own_and_so_have_other_tags_and_another_priority() -> None:
    world = World(DEBOUNCE)
    runs = [
        begun(world, {"page": "a"}),
        begun(world, {"page": "b"}),
        begun(world, {"page": "a"}, tags={"customer": "ana"}),
        begun(world, {"page": "a"}, priority=5),
    ]
    assert len({one.header.run_id for one in runs}) == 4
    assert all(one.created for one in runs)


def test_a_batch_begins_when_it_is_full_with_all_inputs_in_their_order() -> None:
    world = World(BATCH)
    runs = [begun(world, {"to": name}) for name in ("ana", "leo", "eva", "kim")]
    world.deliver()
    assert [one.folded for one in runs] == [False, True, True, False]
    assert inputs(world) == [{"to": [{"to": "ana"}, {"to": "leo"}, {"to": "eva"}]}]
    assert runs[3].header.run_id != runs[0].header.run_id
    world.pass_time(MINUTE_MS)
    assert inputs(world)[1:] == [{"to": [{"to": "kim"}]}]


def test_a_batch_refuses_a_start_whose_input_its_schema_refuses_and_keeps_the_others() -> None:
    world = World(BATCH)
    begun(world, {"to": "ana"})
    with pytest.raises(InvalidInput, match="input_schema"):
        begun(world, {"from": "leo"})
    world.pass_time(HOUR_MS)
    assert inputs(world) == [{"to": [{"to": "ana"}]}]


def test_a_repeated_start_finds_its_run_before_and_after_that_has_begun() -> None:
    world = World(BATCH)
    first, second = begun(world, {"to": "ana"}, key="1"), begun(world, {"to": "leo"}, key="2")
    assert begun(world, {"to": "ana"}, key="1") == Started(first.header, created=False)
    assert begun(world, {"to": "leo"}, key="2") == second
    world.pass_time(HOUR_MS)
    for key, name in (("1", "ana"), ("2", "leo")):
        again = begun(world, {"to": name}, key=key)
        assert (again.header.run_id, again.created, again.folded) == (first.header.run_id, False, key == "2")
    world.pass_time(HOUR_MS)
    assert inputs(world) == [{"to": [{"to": "ana"}, {"to": "leo"}]}]
    with pytest.raises(Conflict) as refused:
        begun(world, {"to": "eva"}, key="1")
    assert refused.value.code == "already_used"


def test_a_batch_of_one_gathers_no_more_and_still_knows_the_keys_of_before() -> None:
    world = World(BATCH)
    first = begun(world, {"to": "ana"}, key="1")
    begun(world, {"to": "leo"}, key="2")
    world.catalog.replace([graph_of(BATCH.replace("max_size: 3", "max_size: 1"))])
    again = begun(world, {"to": "leo"}, key="2")
    assert (again.header.run_id, again.folded) == (first.header.run_id, True)
    assert begun(world, {"to": "eva"}).created
    world.pass_time(HOUR_MS)
    assert sorted(len(one["to"]) for one in inputs(world)) == [1, 2]


def test_the_start_that_made_a_run_finds_it_though_its_workflow_gathers_no_more() -> None:
    world = World(BATCH)
    first = begun(world, {"to": "ana"}, key="1")
    begun(world, {"to": "leo"}, key="2")
    world.catalog.replace([graph_of(BATCH.replace("batch: {max_size: 3, max_delay: 1m}\n", ""))])
    assert begun(world, {"to": "ana"}, key="1") == Started(first.header, created=False)
    with pytest.raises(Conflict) as refused:
        begun(world, {"to": "eva"}, key="1")
    assert refused.value.code == "already_used"
    world.pass_time(HOUR_MS)
    assert begun(world, {"to": "ana"}, key="1").created is False
    assert begun(world, {"to": "leo"}, key="2").created is True


def test_a_start_after_the_period_makes_another_run_though_the_first_ones_worker_is_late() -> None:
    world = World(DEBOUNCE)
    first = begun(world, {"page": "a", "text": 1})
    world.clock.set(world.clock.now_ms() + MINUTE_MS)  # and nobody has looked
    second = begun(world, {"page": "a", "text": 2})
    assert second.created
    assert second.header.run_id != first.header.run_id
    world.pass_time(HOUR_MS)
    assert [one["text"] for one in inputs(world)] == [1, 2]


def test_a_start_that_is_held_up_for_longer_than_the_period_makes_one_run() -> None:
    """The run gathers starts from when it is made, not from when the call began."""
    world = World(DEBOUNCE)
    world.store.before["put_note"] = lambda *_: world.clock.set(world.clock.now_ms() + MINUTE_MS)
    started = begun(world, {"page": "a", "text": 1})
    assert started.created
    world.pass_time(HOUR_MS)
    assert inputs(world) == [{"page": "a", "text": 1}]
    assert world.store.calls["create_run"] == 1


def test_a_cancelled_run_gathers_no_more_starts() -> None:
    world = World(DEBOUNCE)
    first = begun(world, {"page": "a"})
    run_now(world.service.cancel(first.header.run_id))
    second = begun(world, {"page": "a"})
    world.pass_time(HOUR_MS)
    assert [world.header(one.header.run_id).status.value for one in (first, second)] == ["cancelled", "completed"]


def test_nothing_is_left_of_a_place_once_its_run_has_begun() -> None:
    world = World(DEBOUNCE)
    run = begun(world, {"page": "a"})
    assert run_now(world.store.notes(run.header.origin)) == {"open": run.header.run_id}
    world.pass_time(HOUR_MS)
    assert run_now(world.store.notes(run.header.origin)) == {}


def test_a_gathering_run_says_why_it_waits_and_what_wakes_it() -> None:
    world = World(DEBOUNCE)
    run = begun(world, {"page": "a"})
    begun(world, {"page": "a"})
    at = run_now(world.service.standing(run.header.run_id))
    view, told = run_view(at, world.clock.now_ms()), explain(at, world.clock.now_ms(), None, {})
    assert view["status"] == "pending"
    assert str(view["pending_reason"]).startswith("debounce: 2 starts so far, begins at ")
    assert view["input"] == {"page": "a"}
    assert view["origin"] is None
    assert not told["nothing_can_wake_it"]
    assert [one["what"] for one in told["wakers"]] == ["timer"]
    assert told["wakers"][0]["detail"] == "it begins then, if no other start comes"


def test_a_batch_says_that_it_begins_at_its_time_or_when_it_is_full() -> None:
    world = World(BATCH)
    run = begun(world, {"to": "ana"}).header.run_id
    begun(world, {"to": "leo"})
    at = run_now(world.service.standing(run))
    told = explain(at, world.clock.now_ms(), None, {})
    assert str(run_view(at, 0)["pending_reason"]).startswith("batch: 2 starts of at most 3 so far, begins at ")
    assert str(run_view(at, 0)["pending_reason"]).endswith("Z, or when it is full")
    assert told["wakers"][0]["detail"] == "it begins then, or when it is full"
    begun(world, {"to": "eva"})
    full = run_now(world.service.standing(run))
    assert str(run_view(full, 0)["pending_reason"]).startswith("batch: 3 starts, which is the most, begins at ")


def test_the_history_tells_each_start() -> None:
    world = World(BATCH)
    run = begun(world, {"to": "ana"})
    begun(world, {"to": "leo"})
    world.pass_time(HOUR_MS)
    entries = history(world, run.header.run_id)
    starts = [one.data for one in entries if one.type == "start.gathered"]
    assert starts == [{"input": {"to": "ana"}, "number": 1}, {"input": {"to": "leo"}, "number": 2}]
    assert [one.type for one in entries if one.type.startswith("run.")] == [
        "run.created", "run.pending", "run.pending", "run.started", "run.completed"
    ]  # fmt: skip


@pytest.mark.parametrize("option", [{"start_at_ms": 1}, {"create_only": True}])
def test_a_start_that_is_to_be_gathered_cannot_say_when_it_begins(option: dict[str, Any]) -> None:
    world = World(DEBOUNCE)
    with pytest.raises(InvalidInput) as refused:
        begun(world, {"page": "a"}, **option)
    assert refused.value.code == "gathered_start"
    assert world.store.writes == {}


def test_a_start_without_the_key_is_refused_and_nothing_is_written() -> None:
    world = World(DEBOUNCE)
    with pytest.raises(InvalidInput) as refused:
        begun(world, {"other": "a"})
    assert refused.value.code == "bad_key"
    assert world.store.writes == {}


def test_the_timeout_of_a_gathered_run_counts_from_when_it_begins() -> None:
    world = World(DEBOUNCE.replace("timeline: [", "timeout: 1m\ntimeline: [{name: nap, sleep: 59s}, "))
    run = begun(world, {"page": "a"})
    world.pass_time(HOUR_MS)
    assert world.header(run.header.run_id).status == "completed"


def test_a_run_cancelled_before_it_began_is_redriven_with_all_that_it_had() -> None:
    world = World(BATCH)
    run = begun(world, {"to": "ana"}).header.run_id
    begun(world, {"to": "leo"})
    run_now(world.service.cancel(run))
    again = run_now(world.service.redrive(run)).header.run_id
    world.pass_time(HOUR_MS)
    assert inputs(world) == [{"to": [{"to": "ana"}, {"to": "leo"}]}]
    assert world.header(again).status == "completed"


def test_a_run_cancelled_while_it_waited_for_a_limit_is_redriven_with_all_that_it_had() -> None:
    world = World(BATCH.replace("input_schema", "rate_limit: {limit: 1, per: 1h}\ninput_schema"))
    begun(world, {"to": "first"})
    world.pass_time(MINUTE_MS)
    run = begun(world, {"to": "ana"}).header.run_id
    begun(world, {"to": "leo"})
    world.pass_time(2 * MINUTE_MS)
    run_now(world.service.cancel(run))
    again = run_now(world.service.redrive(run)).header.run_id
    world.pass_time(3 * HOUR_MS)
    assert inputs(world)[1:] == [{"to": [{"to": "ana"}, {"to": "leo"}]}]
    assert world.header(again).status == "completed"
    assert [entry.type for entry in history(world, again)].count("start.gathered") == 2


def test_a_fork_from_the_first_slot_has_the_input_of_the_starts() -> None:
    world = World(BATCH)
    run = begun(world, {"to": "ana"}).header.run_id
    begun(world, {"to": "leo"})
    world.pass_time(HOUR_MS)
    run_now(world.service.forker.fork(world.header(run), RunFork(0)))
    world.pass_time(HOUR_MS)
    assert inputs(world) == [{"to": [{"to": "ana"}, {"to": "leo"}]}] * 2


def test_a_redriven_run_and_a_run_started_anew_have_the_input_of_the_starts() -> None:
    world = World(BATCH)
    run = begun(world, {"to": "ana"}).header.run_id
    begun(world, {"to": "leo"})
    world.pass_time(HOUR_MS)
    again = run_now(world.service.rerun(run)).header.run_id
    world.pass_time(HOUR_MS)
    assert inputs(world) == [{"to": [{"to": "ana"}, {"to": "leo"}]}] * 2
    assert world.header(again).input == {"items": [{"to": "ana"}, {"to": "leo"}]}


@pytest.mark.parametrize("definition", [DEBOUNCE, BATCH], ids=["debounce", "batch"])
@pytest.mark.parametrize("is_unpaused_first", [False, True])
def test_a_run_that_was_paused_when_it_was_due_begins_once_though_a_start_closed_it(
    definition: str, is_unpaused_first: bool
) -> None:
    """Its wake rests in the pause, and the start that finds it due lets it begin."""
    world = World(definition)
    first = begun(world, {"page": "a", "to": 1})
    run_now(world.service.pause(first.header.run_id))
    world.pass_time(2 * MINUTE_MS)  # its wake came, and rests
    if is_unpaused_first:
        run_now(world.service.unpause(first.header.run_id))  # and the message that does the rest is under way
    second = begun(world, {"page": "a", "to": 2})
    assert second.header.run_id != first.header.run_id
    if not is_unpaused_first:
        run_now(world.service.unpause(first.header.run_id))
    world.deliver()
    assert world.header(first.header.run_id).status == "completed"
    assert len(inputs(world)) == 1


def test_a_paused_run_that_takes_another_start_after_its_first_wake_begins_once_it_goes_on() -> None:
    """The second start puts off when the run is due, so the first one's wake finds nothing to do."""
    world = World(DEBOUNCE)
    first = begun(world, {"page": "a", "to": 1})
    world.pass_time(20 * SECOND_MS)
    begun(world, {"page": "a", "to": 2})
    run_now(world.service.pause(first.header.run_id))
    world.pass_time(15 * SECOND_MS)
    begun(world, {"page": "a", "to": 3})
    world.pass_time(HOUR_MS)
    assert inputs(world) == []
    run_now(world.service.unpause(first.header.run_id))
    world.deliver()
    assert inputs(world) == [{"page": "a", "to": 3}]
    assert world.header(first.header.run_id).status == "completed"


def test_a_paused_run_takes_no_start_once_it_is_due() -> None:
    world = World(DEBOUNCE)
    first = begun(world, {"page": "a", "to": 1})
    run_now(world.service.pause(first.header.run_id))
    world.pass_time(HOUR_MS)
    assert world.header(first.header.run_id).status == "paused"
    assert [entry.type for entry in history(world, first.header.run_id)][-1] == "run.pending"
    second = begun(world, {"page": "a", "to": 2})
    world.pass_time(HOUR_MS)
    assert inputs(world) == [{"page": "a", "to": 2}]
    run_now(world.service.unpause(first.header.run_id))
    world.deliver()
    assert inputs(world) == [{"page": "a", "to": 2}, {"page": "a", "to": 1}]
    assert second.header.run_id != first.header.run_id
