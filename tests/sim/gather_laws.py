"""The laws of starts that become one run: each is in one run, none is lost, and none comes once the run has begun."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from stepwell.engine.gathering import _NEVER
from stepwell.engine.records import ROOT, Kind, Record
from stepwell.runtime.starts.keys import id_of_key
from tests.sim.gather_programs import GATHERS
from tests.sim.tree import RUN

if TYPE_CHECKING:
    from tests.sim.world import World


def watch_starts(world: World, args: tuple[Any, ...]) -> None:
    """Notes an append that ends a run without a start: there is one for each call, and each that was late or died."""
    if _NEVER not in args[3]:
        return
    world.futile += 1
    calls = sum(one["type"] == "gather" for one in world.main.asks)
    most = calls + world.stalled + world.seen_of[RUN].crashes
    if world.futile > most:
        world.wrong.append(
            f"starts: {world.futile} runs were made for none, by {calls} calls that were late {most - calls} times"
        )


def laws_of_gathering(world: World) -> Iterator[str]:
    """Once the last message is gone. Tells what is broken."""
    found: dict[str, list[str]] = defaultdict(list)  # who started -> in which runs
    for run_id, log in _logs(world):
        starts = [record for record in log if record.kind is Kind.GATHERED]
        for record in starts:
            found[record.by].append(run_id)
        if len({record.by for record in starts}) < len(starts):
            yield f"starts: {run_id} has one twice"
        if starts and starts[-1].slot != len(starts) - 1:
            yield f"starts: {run_id} took one in slot {starts[-1].slot}, after it had begun"
        is_over = log[-1].kind is not Kind.GATHERED if log else is_left_to_the_sweeper(world.of(run_id))
        if not is_over:
            yield f"law 5: {run_id} gathers starts for ever"
        yield from _laws_of_delays(world, run_id, log, starts)
    for ask in (one for one in world.program.asks if one["type"] == "gather"):
        by = f"start:{id_of_key(GATHERS, ask['id'])}"
        if len(found[by]) != bool(ask["name"]):
            yield f"starts: {by} is in {found[by]}"


def is_left_to_the_sweeper(world: World) -> bool:
    """Whether this run has no start, and its maker may have died before it woke the run.

    The maker's own start was put into another run, if somebody made the same start at the same time.
    """
    return world.program.graph.name == GATHERS and bool(world.seen.crashes)


def _laws_of_delays(world: World, run_id: str, log: list[Record], starts: list[Record]) -> Iterator[str]:
    rules = world.programs[GATHERS].graph.gathering
    if rules is None or not starts:
        return
    if rules.max_size and len(starts) > rules.max_size:
        yield f"starts: {run_id} has {len(starts)} of {rules.max_size}"
    if starts[-1].at_ms - starts[0].at_ms > rules.max_delay_ms + 2 * world.chances.skew_ms:
        yield f"starts: {run_id} took one after its longest delay"
    first = log[len(starts)] if len(log) > len(starts) else None
    is_early = first is not None and first.kind is Kind.STARTED and first.at_ms < _due_ms(world, starts)
    if is_early:
        yield f"starts: {run_id} began before it was due"


def _due_ms(world: World, starts: list[Record]) -> int:
    rules = world.programs[GATHERS].graph.gathering
    if rules is None or (rules.max_size and len(starts) >= rules.max_size):
        return 0
    latest_ms = starts[0].at_ms + rules.max_delay_ms
    return min(latest_ms, starts[-1].at_ms + rules.period_ms) if rules.period_ms else latest_ms


def _logs(world: World) -> Iterator[tuple[str, list[Record]]]:
    for view in world.runs():
        if view.program.graph.name == GATHERS:
            yield view.run_id, view.logs.look().records.get(ROOT, [])
