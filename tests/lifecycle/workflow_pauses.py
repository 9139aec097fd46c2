"""Random schedules of pauses of all workflows: clients stop them and have them go on, while workers are at it.

`resume` is the operation of a client that ends the pause. Each worker reads what is paused anew before a step, so that
the law is exact; how late it may be is a test of its own.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from unittest import mock

from stepwell import limits
from stepwell.runtime.log.standing import Standing
from stepwell.runtime.loop import stopping
from stepwell.runtime.loop.stopping import Stopping
from tests.lifecycle.pauses import FAMILIES, TIMES, broken_law
from tests.sim import schedule
from tests.sim.actors import Actor, Envelope
from tests.sim.fork_laws import BrokenLawError
from tests.sim.kept import kept_values
from tests.sim.programs import SUFFIX, Program
from tests.sim.steps import Steps
from tests.sim.world import World

_run, _call, _stops = Steps.run, schedule.call, Stopping.stops


def program_of(seed: int) -> Program:
    """A program of any family, under whose runs the workflows are paused once or twice."""
    rng = random.Random(f"stop {seed}")
    number, family = divmod(seed, len(FAMILIES))
    program = schedule.program_of(FAMILIES[family] + number)
    return replace(
        program, calls=(*program.calls, *(("stop", rng.choice(TIMES)) for _ in range(rng.choice([1, 1, 2]))))
    )


@dataclass
class Stops:
    """What is stopped, by what the clients were answered; and which steps began meanwhile."""

    rng: random.Random
    at_work: set[Actor] | None = None  # when the pause was answered; None: nothing is paused
    begun: Counter[int] = field(default_factory=Counter)  # steps, by who was at work
    ending: int = 0  # calls under way that end the pause, or a run
    held: int = 0  # how often a token rested because of it

    def check(self, of: World, call: Any) -> None:
        """Law: who was about to begin a step may do so, once; nobody else begins one, of any run."""
        is_paused = bool(of.memory._notes["pause"])  # else another client has ended it since
        if self.at_work is None or not is_paused or of.current is None or call.node.endswith(SUFFIX):
            return
        self.begun[id(of.current)] += 1
        if of.current not in self.at_work or self.begun[id(of.current)] > 1:
            raise BrokenLawError(f"{call.token} begins {call.node} while its workflow is paused")


@contextmanager
def _watched(stops: Stops) -> Iterator[None]:
    async def run(self: Any, call: Any) -> Any:
        stops.check(self._world, call)
        return await _run(self, call)

    async def call(of: World, operation: str, body: Mapping[str, Any], run_id: str = schedule.RUN) -> None:
        is_ending = operation.startswith(("resume", "cancel", "terminate"))
        if is_ending:
            stops.at_work = None  # what is cancelled cleans up
        stops.ending += is_ending
        try:
            await _call(of, operation, body, run_id)
        finally:
            stops.ending -= is_ending
        if operation == "stop" and of.memory._notes["pause"]:
            stops.at_work, stops.begun = None if stops.ending else set(of.actors), Counter()
            after_ms = 1_000 * stops.rng.choice(TIMES)
            of.post(Envelope("client", {"type": "resume"}, of.now_ms + after_ms))

    async def counted(self: Stopping, at: Standing) -> bool:
        is_held = await _stops(self, at)
        stops.held += is_held
        return is_held

    with (
        mock.patch.object(Steps, "run", run),
        mock.patch.object(schedule, "call", call),
        mock.patch.object(Stopping, "stops", counted),
        mock.patch.object(limits, "PAUSES_KEPT_MS", 0),
        mock.patch.object(stopping, "UNPAUSED_AGAIN_MS", 0),  # the lists of this store are consistent
    ):
        yield


def check_none_forgotten(of: World) -> None:
    """Law: no run is stopped by a pause that is over."""
    paused = of.memory._notes["pause"]
    for run_id, header in of.memory._runs.items():
        if header.paused_ms and header.pause_of and header.pause_of not in paused:
            raise BrokenLawError(f"{run_id} is stopped by a pause that is over")


@kept_values()
def run_schedule(seed: int, tell: Callable[[str], None] | None = None) -> tuple[str | None, int]:
    """Which law did not hold, or None; and how often a token rested."""
    program, stops = program_of(seed), Stops(random.Random(f"go on {seed}"))
    with schedule._limits(program), _watched(stops):
        return broken_law(World(seed, program, tell), check_none_forgotten), stops.held
