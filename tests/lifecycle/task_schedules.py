"""Random schedules of redrives of functions amid their tasks: what had completed before the failure is kept."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from stepwell.engine.actions import Outcome
from stepwell.engine.fold import fold
from stepwell.engine.records import ENDED, ROOT, End, Kind, Record, Status
from stepwell.engine.token import Token
from stepwell.runtime.calls.redriving import redriven_id
from tests.lifecycle.fork_schedules import FAILED, logs_of
from tests.lifecycle.schedules import RUN, redrive
from tests.sim.fn_programs import Durable
from tests.sim.schedule import _play, _post_clients
from tests.sim.task_programs import TaskMaker, make_world
from tests.sim.world import World


@dataclass(frozen=True)
class Watched(Durable):
    """A program that tells what its steps were called for, until it is mended and afterwards."""

    called: list[tuple[str, str, int]] = field(default_factory=list)  # (run, token, what it says)
    is_mended: bool = False

    def outcome(self, call: Any, now_ms: int, seen: Any) -> Outcome:
        self.called.append((call.run_id, call.token, call.input.get("say", 0)))
        if self.is_mended and call.input:
            call = replace(call, input={**call.input, "fails": 0})
        return super().outcome(call, now_ms, seen)


def program_of(seed: int) -> Watched:
    """A function with tasks, some of whose steps fail until they are mended. It starts no other runs."""
    rng = random.Random(f"redrive tasks {seed}")
    world, maker = make_world(rng), TaskMaker(rng)
    legs = [[maker.operation(), *maker.sequence(1), maker.step()] for _ in range(rng.randint(2, 4))]
    for leg in rng.sample(legs, rng.choice([1, 1, 2])):
        leg.insert(rng.randint(0, 1), {"do": "step", "say": 1_000 + len(leg), "name": "s1", "fails": 9})
    body = [maker.step(), {"do": "must", "of": legs}, maker.step()]
    parts: dict[str, Any] = {name: getattr(world, name) for name in world.__dataclass_fields__}
    given = {"body": body, "again": 0}
    calls = tuple(one for one in world.calls if one[0] == "terminate")
    calls += (("terminate", rng.choice([1, 5, 30])),) * (rng.random() < 0.2)
    return Watched(**{**parts, "input": given, "deploys": (), "has_tasks": True, "calls": calls})


def run_schedule(seed: int, tell: Callable[[str], None] | None = None) -> str | None:
    """None if every law held, or nothing failed; else which law did not hold."""
    program = program_of(seed)
    world = World(seed, program, tell)
    _post_clients(world)
    _play(world)
    old = logs_of(world, RUN)
    end = fold(old.get(ROOT, []), Token()).end
    if end is None or end.status not in FAILED:
        return None
    redrive(world, replace(program, is_mended=True))
    return next(iter(broken_laws(world, old, program.called)), None)


def broken_laws(world: World, old: Mapping[str, list[Record]], called: list[tuple[str, str, int]]) -> Iterator[str]:
    """What is wrong with the run that goes on; nothing if the redrive was refused."""
    run_id = redriven_id(RUN)
    logs = logs_of(world, run_id)
    root = logs.get(ROOT, [])
    if run_id not in world.memory._runs:
        if any(one.startswith("redrive: Started") for one in world.seen.answered):
            yield "a redrive was acknowledged, and there is no run"
        return
    marks = [record for record in root if record.kind is Kind.REDRIVEN]
    if len(marks) != 1:
        yield f"the log has {len(marks)} marks"
        return
    (mark,) = marks
    kept = kept_branches(root[: mark.slot], old)
    if again := {token for run, token, _ in called if run == run_id and token in kept}:
        yield f"{sorted(again)} had completed, and ran again"
    for token in kept:
        if logs.get(token) != old[token]:
            yield f"{token} completed, and is not kept as it was"
    yield from lost_ends(root, mark.slot, kept)
    yield from stuck(root)
    if fold(root, Token()).end is None:
        yield f"it came to no end: it is {fold(root, Token()).phase}"


def kept_branches(root: list[Record], old: Mapping[str, list[Record]]) -> set[str]:
    """Operations of the tasks that had begun in what is kept, and completed."""
    return {token for token, log in old.items() if _slot_of(token) in range(len(root)) and is_completed(log)}


def is_completed(log: list[Record]) -> bool:
    last = log[-1].next if log else None
    return isinstance(last, End) and last.status is Status.COMPLETED


def lost_ends(root: list[Record], mark: int, kept: set[str]) -> Iterator[str]:
    """What had completed is told to the function, once."""
    told = [f"{ROOT}/{one.resumption.part}" for one in root if one.resumption and one.resumption.kind == ENDED]
    if len(told) != len(set(told)):
        yield f"an end is told twice: {told}"
    begun = fold(root[: mark + 1], Token()).tasks
    open_ = {f"{ROOT}/{slot}.{index}" for slot, one in begun.items() for index in one.open}
    if fold(root, Token()).end is None and (lost := (open_ & kept) - set(told)):
        yield f"{sorted(lost)} had completed, and the function does not hear of it"


def stuck(root: list[Record]) -> Iterator[str]:
    """The code is the same, so it fits what is kept."""
    for record in root:
        if record.parked is not None and record.parked.kind == "code":
            yield f"it does not fit its log: {record.parked.data}"


def _slot_of(token: str) -> int:
    head, _, place = token.rpartition("/")
    return int(place.partition(".")[0]) if head == ROOT else -1
