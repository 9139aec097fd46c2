"""Random schedules of redriven runs in the line of a limit: they are paused there, and others come by.

first    redriven ── at work ─────────── ends
second   redriven ── in line ── paused: leaves the line ──────── goes on: asks anew
third    redriven ── in line ──────────── let in
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from unittest import mock

from stepwell.definition.graph import END, Call, Child, Concurrency, Graph, Node, Rule, Step
from stepwell.engine.records import Status
from stepwell.runtime.starts.ids import redriven_id
from tests.sim import ports, schedule
from tests.sim.actors import Actor, Envelope
from tests.sim.child_programs import Family
from tests.sim.clients import call as _call
from tests.sim.clients import post_clients
from tests.sim.fork_laws import BrokenLawError
from tests.sim.kept import kept_values
from tests.sim.limit_laws import laws_of_limits
from tests.sim.noting import note as _note
from tests.sim.programs import Undoing
from tests.sim.tree import RUN
from tests.sim.world import World

_PAUSED_S = (0, 1, 1, 2, 3)
_HELD_S = (1, 5, 60)


def program_of(seed: int) -> Family:
    """A run that starts others of a workflow, one of which is under way at a time, and whose first step fails."""
    rng = random.Random(f"line {seed}")
    limit = Concurrency(1, None, "queue")
    names = ("n0", "n1")[: rng.choice((1, 2))]
    nodes = {
        name: Node(name, step=Step(f"python:sim.{name}"), rules=(Rule(f"{name}.next", "next", to=following),))
        for name, following in zip(names, (*names[1:], END), strict=True)
    }
    graph = replace(Graph("kid0", "sha256:kid0", "timeline", "n0", nodes, {}), concurrency=limit)
    kid = Family(graph, {}, {}, frozenset(), (), (), undoing=Undoing(broken=frozenset({"n0"})))
    children = tuple(Child(f"c{number}", "kid0") for number in range(rng.choice((3, 3, 4))))
    call = Call(children, failed_child="return", siblings="finish")
    above = {"n0": Node("n0", call=call, rules=(Rule("n0.next", "next", to=END),))}
    return Family(Graph("sim", "sha256:sim", "timeline", "n0", above, {}), {}, {}, frozenset(), (), (), callees=(kid,))


@dataclass
class Paused:
    """The runs whose pauses were answered, and who was at work then: these may let in whom they saw in line."""

    by_run: dict[str, set[Actor]] = field(default_factory=dict)

    def note(self, world: World, name: str, args: tuple[Any, ...], made: Any) -> None:
        """Law: who comes later lets in no run that is paused in line."""
        _note(world, name, args, made)
        if name != "put_note" or not made or not args[0].startswith("permits:") or not args[1].startswith("h"):
            return
        for run_id in {*json.loads(args[2])} - {*json.loads(args[3] or "[]")}:
            is_paused = world.memory._runs[run_id].paused_ms > 0
            if is_paused and world.current not in self.by_run.get(run_id, {world.current}):
                world.wrong.append(f"a paused run was in line, and is let in: {run_id}")

    async def call(self, world: World, operation: str, body: Mapping[str, Any], run_id: str = RUN) -> None:
        if operation == "unpause":
            self.by_run.pop(run_id, None)
        await _call(world, operation, body, run_id)
        if operation == "pause" and world.seen.answered[-1] in ("pause: False", "pause: True"):
            self.by_run[run_id] = set(world.actors)


@kept_values()
def run_schedule(seed: int, tell: Callable[[str], None] | None = None) -> str | None:
    """None if every law held; else which law did not hold."""
    paused = Paused()
    with mock.patch.object(ports, "note", paused.note), mock.patch.object(schedule, "call", paused.call):
        return _run(World(seed, program_of(seed), tell))


def _run(world: World) -> str | None:
    chances, (kid,) = world.chances, world.main.callees
    chances.crash = chances.error = 0
    chances.double = min(chances.double, 0.05)
    try:
        post_clients(world)
        schedule._play(world)
        world.programs["kid0"] = replace(kid, undoing=None, takes_ms=(2_000,))
        failed = [run_id for run_id in world.memory._runs if run_id != RUN]
        _redrive(world, failed)
        schedule._play(world)
    except BrokenLawError as broken:
        return str(broken)
    finally:
        for actor in world.actors:
            actor.coroutine.close()
    return next(_broken(world, failed), None)


def _redrive(world: World, failed: list[str]) -> None:
    """Has clients redrive the runs, and pause some of those that are made."""
    world.main = replace(world.main, takes_ms=(2_000,))
    for number, run_id in enumerate(failed):
        world.post(Envelope("client", {"type": "redrive child", "run": run_id}, world.now_ms + 100 * number))
        for _ in range(world.rng.choice((0, 1, 1, 2))):
            at_ms = world.now_ms + 1_000 * world.rng.choice(_PAUSED_S) + 500
            ask = {"type": "pause child", "run": redriven_id(run_id), "held_s": world.rng.choice(_HELD_S)}
            world.post(Envelope("client", ask, at_ms))
    world.calls = 0


def _broken(world: World, failed: list[str]) -> Iterator[str]:
    yield from laws_of_limits(world)
    for run_id in failed:
        header = world.memory._runs.get(redriven_id(run_id))
        if header is None or header.status is not Status.COMPLETED:
            yield f"the run made of {run_id} comes to no end: {header and header.status}"
