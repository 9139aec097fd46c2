"""Random schedules of pauses: clients pause a run, and have it go on, while workers, timers and clients are at it."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from unittest import mock

from stepwell.errors import EngineFault
from tests.sim import schedule
from tests.sim.actors import Actor, Envelope
from tests.sim.clients import post_clients
from tests.sim.fork_laws import BrokenLawError
from tests.sim.kept import kept_values
from tests.sim.laws import check_end, check_parked, check_quiet
from tests.sim.programs import SUFFIX, Program
from tests.sim.steps import Steps
from tests.sim.world import World

FAMILIES = (0, schedule.FAMILIES, schedule.PARTS_FROM, schedule.LOCKED_FROM, schedule.DURABLE_FROM, schedule.TASKS_FROM)
TIMES = (0, 0, 1, 5, 30, 4_000)  # seconds
_run, _call = Steps.run, schedule.call


def program_of(seed: int) -> Program:
    """A program of any family, whose run is paused once or twice."""
    rng = random.Random(f"pause {seed}")
    number, family = divmod(seed, len(FAMILIES))
    program = schedule.program_of(FAMILIES[family] + number)
    pauses = tuple(("pause", rng.choice(TIMES)) for _ in range(rng.choice([1, 1, 2])))
    return replace(program, calls=(*program.calls, *pauses))


@dataclass
class Pauses:
    """What is paused, by what the clients were answered; and which steps began meanwhile."""

    rng: random.Random
    at_work: set[Actor] | None = None  # when the pause was answered; None: nothing is paused
    begun: Counter[int] = field(default_factory=Counter)  # steps, by who was at work
    held: int = 0  # pauses that were answered

    def check(self, of: World, call: Any) -> None:
        """Law: who was about to begin a step may do so, once; nobody else begins one."""
        is_paused = of.memory._runs[schedule.RUN].paused_ms > 0  # a cancel ends the pause
        if self.at_work is None or of.current is None or call.run_id != schedule.RUN or not is_paused:
            return
        if call.node.endswith(SUFFIX):
            return
        actor = of.current
        self.begun[id(actor)] += 1
        if actor not in self.at_work or self.begun[id(actor)] > 1:
            raise BrokenLawError(f"{call.token} begins {call.node} while its run is paused")


@contextmanager
def _watched(pauses: Pauses) -> Iterator[None]:
    async def run(self: Any, call: Any) -> Any:
        pauses.check(self._world, call)
        return await _run(self, call)

    async def call(of: World, operation: str, body: Mapping[str, Any], run_id: str = schedule.RUN) -> None:
        if operation == "unpause":
            pauses.at_work = None
        await _call(of, operation, body, run_id)
        if operation == "pause" and of.seen.answered[-1] in ("pause: False", "pause: True"):
            pauses.held += 1
            pauses.at_work, pauses.begun = set(of.actors), Counter()
            after_ms = 1_000 * pauses.rng.choice(TIMES)
            of.post(Envelope("client", {"type": "unpause"}, of.now_ms + after_ms))

    with mock.patch.object(Steps, "run", run), mock.patch.object(schedule, "call", call):
        yield


@kept_values()
def run_schedule(seed: int, tell: Callable[[str], None] | None = None) -> tuple[str | None, int]:
    """Which law did not hold, or None; and how often the run was paused."""
    program = program_of(seed)
    pauses = Pauses(random.Random(f"unpause {seed}"))
    with schedule._limits(program), _watched(pauses):
        return broken_law(World(seed, program, tell)), pauses.held


def broken_law(of: World, *checks: Callable[[World], None]) -> str | None:
    """Plays the schedule to its end. Which law did not hold, of these and of those that hold at every end."""
    try:
        post_clients(of)
        schedule._play(of)
        for check in (*checks, check_quiet, check_parked, check_end):
            check(of)
    except BrokenLawError as broken:
        return str(broken)
    except EngineFault as fault:
        return f"a log that cannot be was met: {fault}"
    finally:
        for actor in of.actors:
            actor.coroutine.close()
        of.processes.reload()
    return None
