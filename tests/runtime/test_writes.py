"""What a run costs in calls to the store: one write per step, however long the run is, and reads that do not grow."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from stepwell.api.runs.histories import read_history
from stepwell.engine.fold import fold
from stepwell.engine.records import Goto, Kind, Record
from stepwell.engine.stored.codec import encode_record
from stepwell.engine.token import Token
from stepwell.limits import CLAIM_CHECK_BYTES, SNAPSHOT_RECORDS
from stepwell.runtime.log.claims import fetch, stow
from stepwell.runtime.log.messages import Wake, to_json
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.ports import Lane
from tests.runtime.kit import NOW_MS, World

CHAIN = "workflow: flow\ntimeline: [" + ", ".join(f"{{name: s{n}, run: python:m.s}}" for n in range(10)) + "]"
LOOP = """
workflow: flow
nodes:
  work:
    run: python:m.work
    output: {last: "{{ result }}"}
    max_visits: 100000
    transitions: [{to: work, when: "result < 1200"}, {to: end}]
"""
HOLD = (
    "workflow: flow\ntimeline: [{name: hold, wait: {for: event, name: paid, key: k}}, {name: after, run: python:m.a}]"
)


def chain() -> World:
    """A world in which one run has been already: the first of a version stores its definition."""
    world = World(CHAIN)
    world.start()
    world.deliver()
    world.store.calls.clear()
    return world


def test_a_chain_of_ten_steps_is_ten_appends_and_its_header_created_picked_up_and_ended() -> None:
    world = chain()
    run_id = world.start()
    assert world.deliver() == 1  # one message in all: from step to step a worker goes inline
    assert world.header(run_id).status == "completed"
    assert world.store.writes == Counter(append=10, create_run=1, change_status=2)


def test_the_definition_is_not_written_again_for_each_run() -> None:
    world = chain()
    world.start()
    world.deliver()
    assert world.store.writes["put_definition"] == 0


def test_a_retry_and_a_duplicate_message_cost_no_further_append() -> None:
    world = chain()
    run_id = world.start()
    for _ in range(3):
        world.send(Lane.WORK, to_json(Wake(run_id, -1)))
    world.deliver()
    assert world.store.calls["append"] == 10
    assert len(world.steps.calls) == 20  # ten of the run before


def test_a_wait_is_two_records_a_registration_and_a_status_each_way() -> None:
    world = World(HOLD)
    world.start()
    world.deliver()
    world.store.calls.clear()
    run_now(world.service.send_event("paid", {"n": 1}, key="k"))
    world.deliver()
    wanted = Counter(put_event=1, consume=1, append=2, change_status=2, forget_waiter=1)
    assert world.store.writes == wanted


def test_step_one_thousand_costs_what_step_one_costs() -> None:
    world = World(LOOP)
    appends: list[tuple[int, int]] = []
    counter = iter(range(1, 2_000))
    world.steps.of["work"] = lambda call: next(counter)
    world.start()
    inner = world.store.inner.append

    async def append(run_id: str, token: str, slot: int, body: str, **named: Any) -> str | None:
        appends.append((slot, len(body)))
        made: str | None = await inner(run_id, token, slot, body, **named)
        return made

    world.store.inner.append = append
    world.store.calls.clear()
    world.deliver()
    assert len(appends) == 1_200
    assert appends[1_000][1] - appends[1][1] < 20  # the numbers in it have more digits
    assert world.store.writes == Counter(append=1_200, change_status=2, save_snapshot=1_200 // SNAPSHOT_RECORDS)
    assert world.store.calls["load"] == 1


def test_loading_a_long_run_reads_only_what_follows_its_last_snapshot() -> None:
    world = World(LOOP)
    world.steps.of["work"] = lambda call: 1_200 if len(world.steps.calls) >= 10_000 else 0
    run_id = world.start()
    world.deliver()
    assert world.token(run_id).slot == 9_999
    world.store.records_read = 0
    world.token(run_id)
    assert 0 < world.store.records_read <= SNAPSHOT_RECORDS + 1


def test_the_end_of_a_long_history_is_told_without_reading_its_beginning() -> None:
    world = World(LOOP)
    world.steps.of["work"] = lambda call: 1_200 if len(world.steps.calls) >= 1_500 else 0
    run_id = world.start()
    world.deliver()
    slot = world.token(run_id).slot
    world.store.records_told = 0
    page = run_now(read_history(world.service, run_id, f"0@{slot}.0", 50))
    assert page.entries[-1].type == "run.completed"
    assert world.store.records_told <= SNAPSHOT_RECORDS


def test_the_fold_of_a_snapshot_and_what_follows_is_the_fold_of_everything() -> None:
    world = World(LOOP)
    world.steps.of["work"] = lambda call: 1_200 if len(world.steps.calls) >= 450 else 0
    run_id = world.start()
    world.deliver()
    whole = run_now(world.service.records(run_id))
    assert fold(whole, Token()) == world.token(run_id)


def test_a_large_result_goes_to_the_blob_store_and_is_read_back() -> None:
    world = World(CHAIN)
    large = "x" * (2 * CLAIM_CHECK_BYTES)
    world.steps.of["s0"] = lambda call: large
    run_id = world.start()
    world.deliver()
    log = run_now(world.store.inner.read_log(run_id, "0"))
    assert len(log[0].body) < 200
    assert world.token(run_id).scope["s0"] == large
    assert run_now(world.service.records(run_id))[0].output == large


@pytest.mark.parametrize("text", ["é", "漢", "😀"])
def test_what_is_large_is_measured_in_bytes_not_in_characters(text: str) -> None:
    world = World(CHAIN)
    output = text * (CLAIM_CHECK_BYTES // len(text.encode()))
    body = encode_record(Record(0, Kind.STEP, "w", NOW_MS, "a", output=output, next=Goto("b")))
    kept = run_now(stow(body, world.blobs))
    assert len(kept.encode()) <= CLAIM_CHECK_BYTES
    assert run_now(fetch(kept, world.blobs)) == body


def test_a_wait_loads_its_token_once_per_message() -> None:
    world = World(HOLD)
    world.start()
    world.store.calls.clear()
    world.deliver()
    assert world.store.calls["load"] == 1
