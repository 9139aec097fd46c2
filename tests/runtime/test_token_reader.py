"""A process reads of a long log what is new to it, whoever wrote it; what it reads is what a cold one reads."""

from __future__ import annotations

import pytest

from stepwell.engine.copying import changed
from stepwell.engine.records import ROOT
from stepwell.limits import LONG_LOG_RECORDS, MINUTE_MS
from stepwell.runtime.log.logbook import Logbook
from stepwell.runtime.log.standing import Standing
from stepwell.runtime.loop.driving import run_now
from tests.runtime.kit import World

NAPS = """
workflow: flow
nodes:
  nap: {sleep: 1m, transitions: [{to: done, when: "input.is_over"}, {to: nap}]}
  done: {}
"""
LAPS = 30  # of two records each


def after_naps(count: int = LAPS, **options: int) -> tuple[World, str]:
    world = World(NAPS, **options)
    run_id = world.start(given={"is_over": False})
    world.pass_time(count * MINUTE_MS)
    return world, run_id


def read(logbook: Logbook, run_id: str) -> Standing:
    at = run_now(logbook.load(run_id))
    assert at is not None
    return at


@pytest.mark.parametrize(("forks_kept", "least", "most"), [(8, 0, 10), (0, 100, 1_000)], ids=["warm", "cold"])
def test_a_lap_of_a_long_loop_reads_the_records_of_that_lap(forks_kept: int, least: int, most: int) -> None:
    world, _ = after_naps(forks_kept=forks_kept)
    before = world.store.records_read
    world.pass_time(MINUTE_MS)
    assert least < world.store.records_read - before < most


def test_of_a_short_log_all_is_read() -> None:
    world, run_id = after_naps(2)
    warm = Logbook(world.parts.ports, world.catalog)
    read(warm, run_id)
    before = world.store.records_read
    slot = read(warm, run_id).token.slot
    assert slot < LONG_LOG_RECORDS
    assert world.store.records_read - before == slot + 1


def test_what_other_processes_wrote_since_is_read() -> None:
    world, run_id = after_naps(snapshot_records=50)
    warm, cold = Logbook(world.parts.ports, world.catalog), Logbook(world.parts.ports, world.catalog, forks_kept=0)
    for _ in range(LAPS):
        world.pass_time(MINUTE_MS)
        at = read(warm, run_id)
        assert at.token == read(cold, run_id).token
    assert at.token.visits["nap"] >= 2 * LAPS


def test_a_pause_is_met_behind_the_records_that_were_read_before() -> None:
    world, run_id = after_naps()
    warm = Logbook(world.parts.ports, world.catalog)
    assert not read(warm, run_id).is_marked
    run_now(world.service.pause(run_id))
    at = read(warm, run_id)
    assert at.is_marked
    assert at.run.is_paused


def test_a_later_run_of_the_same_id_is_not_taken_for_the_deleted_one() -> None:
    world, run_id = after_naps()
    warm, store = Logbook(world.parts.ports, world.catalog), world.store.inner
    at = read(warm, run_id)
    store._logs[run_id, ROOT].slots.clear()
    store._runs[run_id] = changed(at.header, created_ms=at.header.created_ms + 1, input="null")
    assert read(warm, run_id).token.slot == -1


def test_a_token_that_is_kept_is_saved_no_more_often() -> None:
    warm, _ = after_naps(100, snapshot_records=20)
    cold, _ = after_naps(100, snapshot_records=20, forks_kept=0)
    assert warm.store.calls["save_snapshot"] == cold.store.calls["save_snapshot"]
