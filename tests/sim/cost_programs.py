"""Forks of runs that have passed their `max_cost`, and a person who unpauses them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from stepwell.engine.records import ROOT, Record, Status
from tests.sim.overlap_programs import make_fork, with_times
from tests.sim.programs import Program

if TYPE_CHECKING:
    from tests.sim.world import World

_UNPAUSED_AFTER_SECONDS = (0, 5, 60, 600, 4_000, 40_000, 400_000)
_NOTHING_USD = 1e-12


def make_costly(rng: random.Random) -> Program:
    """Returns a fork over a list. Its run is unpaused again and again, as a person would who sees it paused."""
    program = make_fork(rng)
    calls = program.calls + tuple(("unpause", after) for after in _UNPAUSED_AFTER_SECONDS)
    program = replace(program, graph=replace(program.graph, max_cost_usd=_NOTHING_USD), calls=calls)
    return with_times(program, rng) if rng.random() < 0.4 else program


def watch_cost(world: World, call: Any) -> None:
    """Notes a branch's step that begins in an open fork before its run was paused for its cost."""
    is_open = world.main.graph.max_cost_usd == _NOTHING_USD and len(world.memory._logs[call.run_id, ROOT].records) == 1
    if is_open and not world.memory._runs[call.run_id].paused_by:
        world.seen_of[call.run_id].too_dear.append(f"{call.node} of {call.token} began in a run that may cost nothing")


def laws_of_costs(world: World, logs: dict[str, list[Record]]) -> Iterator[str]:
    """Yields the steps that began too early, and a run that stays paused."""
    yield from (f"costs: {broken}" for broken in world.seen.too_dear)
    if world.main.graph.max_cost_usd == _NOTHING_USD and world.memory._runs[world.run_id].status is Status.PAUSED:
        yield "costs: the run is paused, although it was unpaused again and again"
