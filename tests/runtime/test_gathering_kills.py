"""Whoever starts, or works, may die at any call of the store: no start is lost, and none is in two runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from stepwell.engine.records import ROOT, Kind, Record
from stepwell.engine.stored.codec import decode_record
from stepwell.errors import PortError
from stepwell.limits import HOUR_MS, MINUTE_MS, SECOND_MS
from stepwell.local.database import Database
from stepwell.local.sqlite_store import SqliteStore
from stepwell.memory.store import MemoryStore
from stepwell.runtime.calls.gathering import Gatherer
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.ports.headers import RunQuery
from stepwell.runtime.starts.starting import Start
from tests.runtime.kit import World
from tests.runtime.test_gathering import BATCH, DEBOUNCE
from tests.runtime.test_permit_kills import Watched, deliver

STARTS = tuple((f"k{number}", {"page": "a", "to": "ana", "n": number}) for number in range(5))


class Killed(Watched):
    """It counts nothing but calls."""

    def see(self, run_id: str, record: Record) -> None:
        pass


def lived(world: Any, at: int, *, done: bool) -> Killed:
    """Five starts with keys, a while apart; one that is not answered is made again, and each is made twice."""
    killed = Killed(world.store.inner, at, done)
    world.store.inner = killed
    workflow = next(iter(world.catalog.current))
    for number, (key, given) in enumerate(STARTS):
        for _ in range(2):
            ask(partial(world.service.start, Start(workflow, given, key=key)))
        if number % 2:
            deliver(world, world.clock.now_ms() + 20 * SECOND_MS)
    deliver(world, world.clock.now_ms() + 10 * MINUTE_MS)
    return killed


def ask(call: Callable[[], Any]) -> None:
    try:
        run_now(call())
    except PortError:
        run_now(call())


def starts_in(world: Any) -> Iterator[tuple[str, list[str]]]:
    """Each run, and who is in it."""
    for header in run_now(world.store.list_runs(RunQuery(limit=100))).headers:
        bodies = [one.body for one in run_now(world.store.read_log(header.run_id, ROOT))]
        records = [decode_record(body) for body in bodies]
        yield header.run_id, [one.by for one in records if one.kind is Kind.GATHERED]


def check(world: Any, at: int) -> None:
    found = dict(starts_in(world))
    counted = Counter(by for starts in found.values() for by in starts)
    assert len(counted) == len(STARTS), at
    assert set(counted.values()) == {1}, at
    headers = run_now(world.store.list_runs(RunQuery(limit=100))).headers
    assert all(one.status.terminal for one in headers), at
    assert all(run_now(world.store.notes(one.origin)) == {} for one in headers), at
    assert {one.run_id for one in headers if one.status == "completed"} == {one for one in found if found[one]}, at
    assert len(world.steps.calls) >= len([one for one in found.values() if one])


def killed_everywhere(definition: str, store: Callable[[], Any], *, done: bool) -> int:
    at, has_killed = 1, True
    while has_killed:
        world = World(definition)
        world.store.inner = store()
        killed = lived(world, at, done=done)
        has_killed = killed.stop()
        world.clock.set(world.clock.now_ms() + HOUR_MS)
        run_now(world.sweeper.sweep(MINUTE_MS))
        deliver(world, world.clock.now_ms() + HOUR_MS)
        check(world, at)
        at += 1
    return at


@pytest.mark.parametrize("done", [False, True], ids=["before it", "after it"])
@pytest.mark.parametrize("definition", [DEBOUNCE, BATCH], ids=["debounce", "batch"])
def test_who_dies_at_any_call_loses_no_start_and_puts_none_into_two_runs(definition: str, done: bool) -> None:
    assert killed_everywhere(definition, MemoryStore, done=done) > 60


@pytest.mark.parametrize("done", [False, True], ids=["before it", "after it"])
def test_the_same_on_sqlite(tmp_path: Path, done: bool) -> None:
    numbers = iter(range(1_000))
    made = killed_everywhere(BATCH, lambda: SqliteStore(Database(tmp_path / f"{next(numbers)}.db")), done=done)
    assert made > 60


def test_a_start_that_leaves_no_home_behind_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mutant: a repeated start does not know where it was put before."""

    async def nowhere(self: Gatherer, given: Any) -> tuple[str, ...]:
        return ()

    monkeypatch.setattr(Gatherer, "_homes", nowhere)
    with pytest.raises((AssertionError, PortError)):
        killed_everywhere(BATCH, MemoryStore, done=True)
