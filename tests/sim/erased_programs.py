"""Programs of every family whose run is deleted, amid its work or after it, and whose id is used again.

deleted ── started again? not for an hour ── started again: its second life has nothing of the first
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from stepwell.limits import HOUR_MS, ID_HELD_MS, SECOND_MS
from stepwell.runtime.stores.blobs import of_run
from tests.sim.actors import Envelope
from tests.sim.programs import Program
from tests.sim.seen import Seen
from tests.sim.tree import RUN, Logs

if TYPE_CHECKING:
    from tests.sim.world import World

_WHEN_S = (0, 0, 1, 1, 5, 61, 5_000)
_TOO_EARLY_MS = (0, 0, 500, 40_000, 16 * 60 * SECOND_MS, ID_HELD_MS - 10_000)
_IN_TIME_MS = (ID_HELD_MS + 10_000, ID_HELD_MS + HOUR_MS)


def with_deletions(program: Program, rng: random.Random) -> Program:
    """Returns the program with a deletion, at times with two. Its run begins with its start, in either life."""
    asks = [{"type": "erase", "after_s": rng.choice(_WHEN_S)} for _ in range(rng.choice([1, 1, 2]))]
    return replace(program, asks=(*program.asks, *asks), idle=False, start_after_ms=0, deploys=())


def note_deletion(world: World, name: str, args: tuple[Any, ...], made: Any) -> None:
    """Notes which run is gone, or begins anew under the same id."""
    if name == "erase_logs":
        world.erasing.add(args[0])
        world.logs_of[args[0]] = NoLogs()
        world.logs = world.logs_of[RUN]
    if name == "drop_run" and made:
        run_id, held_until_ms = args
        world.gone[run_id] = held_until_ms
        world.reborn.discard(run_id)
        if run_id == RUN:
            _post_starts(world)
    if name == "create_run" and made is None and args[0].run_id in world.gone:
        if args[0].created_ms < world.gone.pop(args[0].run_id):
            world.wrong.append(f"ids: {args[0].run_id} was made anew while its id was held")
        _forget(world, args[0].run_id)


def _post_starts(world: World) -> None:
    """Starts the run again: some times too early, and half of the time in the end."""
    times = world.rng.sample(_TOO_EARLY_MS, 2) + [world.rng.choice(_IN_TIME_MS)] * (world.rng.random() < 0.6)
    for after_ms in times:
        world.post(Envelope("client", {"type": "again"}, world.now_ms + after_ms))


def _forget(world: World, run_id: str) -> None:
    """Has the laws see the second life only."""
    if any(log.records for (of_run, _), log in world.memory._logs.items() if of_run == run_id):
        world.wrong.append(f"ids: {run_id} was made anew, and has records already")
    world.erasing.discard(run_id)
    world.reborn.add(run_id)
    seen = Seen(crashes=world.seen.crashes)
    world.seen_of[run_id], world.logs_of[run_id] = seen, Logs(world.memory, world.blobs, run_id)
    if run_id == RUN:
        world.seen, world.logs = seen, world.logs_of[run_id]


class NoLogs(Logs):
    """Those of a run whose logs are being erased, while late workers may still write to them."""

    def __init__(self) -> None:
        self.records, self.tokens = {}, {}

    def look(self) -> Logs:
        return self


def laws_of_the_deleted(world: World) -> Iterator[str]:
    """Nothing is left of a deleted run, and nothing of its first life is in its second."""
    yield from world.wrong
    yield from _left(world)
    for view in world.runs():
        for token, records in view.logs.look().records.items():
            if old := [one.slot for one in records if one.at_ms < view.born_ms]:
                yield f"ids: {token} of {view.run_id} has records of before its run was made: {old[:3]}"


def _left(world: World) -> Iterator[str]:
    for (run_id, token), log in world.memory._logs.items():
        if run_id in world.gone and log.records:
            yield f"ids: {run_id} is deleted, and {token} has {len(log.records)} records"
    for run_id in world.gone:
        if left := [key for key in world.blobs._blobs if key.startswith(of_run(run_id))]:
            yield f"ids: {run_id} is deleted, and has blobs: {left[:3]}"
    for topic, waiters in world.memory._waiters.items():
        if found := [str(waiter) for waiter in waiters.values() if waiter.run_id in world.gone]:
            yield f"ids: a deleted run waits for {topic}: {found[0]}"
