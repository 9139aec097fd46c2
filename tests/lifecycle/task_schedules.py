"""Random schedules of redrives of functions amid their tasks: what had completed before the failure is kept."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from stepwell.engine.actions import Outcome
from stepwell.engine.fold import fold
from stepwell.engine.records import ENDED, ROOT, End, Fork, Kind, Record, Status
from stepwell.engine.token import Token
from stepwell.runtime.starts.ids import redriven_id
from tests.lifecycle.fork_schedules import FAILED, logs_of
from tests.lifecycle.schedules import RUN, redrive
from tests.sim.clients import post_clients
from tests.sim.fn_programs import Durable
from tests.sim.fn_values import Statement
from tests.sim.kept import kept_values
from tests.sim.schedule import _play
from tests.sim.task_programs import TaskMaker, make_world
from tests.sim.world import World


@dataclass(frozen=True)
class Watched(Durable):
    """A program that tells what its steps were called for, until it is mended and afterwards."""

    called: list[tuple[str, str, int]] = field(default_factory=list)  # (run, token, what it says)
    is_mended: bool = False
    clean: frozenset[int] = frozenset()  # what the steps say of tasks in which nothing fails

    def outcome(self, call: Any, now_ms: int, seen: Any) -> Outcome:
        self.called.append((call.run_id, call.token, call.input.get("say", 0)))
        if self.is_mended and call.input:
            call = replace(call, input={**call.input, "fails": 0})
        return super().outcome(call, now_ms, seen)


def program_of(seed: int) -> Watched:
    """A function with tasks, some of whose steps fail until they are mended. It starts no other runs."""
    rng = random.Random(f"redrive tasks {seed}")
    world, maker = make_world(rng), TaskMaker(rng)
    if seed % 2:
        return _late(rng, world, maker)
    legs = [[maker.operation(), *maker.sequence(1), maker.step()] for _ in range(rng.randint(2, 4))]
    for leg in rng.sample(legs, rng.choice([1, 1, 2])):
        leg.insert(rng.randint(0, 1), {"do": "step", "say": 1_000 + len(leg), "name": "s1", "fails": 9})
    return _watched(rng, world, [maker.step(), {"do": "must", "of": legs}, maker.step()])


def _late(rng: random.Random, world: Durable, maker: TaskMaker) -> Watched:
    """A function whose tasks all come to their end before it fails: what the others did is taken from there."""
    legs = [_simple(rng, maker, rng.randint(1, 4)) for _ in range(rng.randint(2, 4))]
    clean = frozenset(say for leg in legs for say in _said(leg))
    broken = [_simple(rng, maker, rng.randint(0, 2)) for _ in range(rng.choice([1, 1, 2]))]
    for leg in broken:
        leg.extend([{"do": "step", "say": 1_000 + len(leg), "name": "s1", "fails": 9}, *_simple(rng, maker, 1)])
    legs += broken
    rng.shuffle(legs)
    made = _watched(rng, world, [maker.step(), {"do": "late", "of": legs}, maker.step()])
    return replace(made, clean=clean)


def _simple(rng: random.Random, maker: TaskMaker, length: int) -> list[Statement]:
    """Statements of which none fails, and that await nothing from outside."""
    found: list[Statement] = []
    for _ in range(length):
        maker.said += 1
        kind = rng.random()
        if kind < 0.7:
            found.append({"do": "step", "say": maker.said, "name": rng.choice(["s0", "s1", "o0"])})
        elif kind < 0.8:
            found.append({"do": "call", "say": maker.said, "name": "c0"})
        elif kind < 0.9:
            found.append({"do": rng.choice(["nap", "sleep"]), "seconds": rng.choice([1, 7])})
        else:
            found.append({"do": "gather", "of": [_simple(rng, maker, 2) for _ in range(2)]})
    return found


def _said(leg: list[Statement]) -> Iterator[int]:
    for one in leg:
        yield from (say for inner in one.get("of", ()) for say in _said(inner))
        if one["do"] == "step":
            yield one["say"]


def _watched(rng: random.Random, world: Durable, body: list[Statement]) -> Watched:
    parts: dict[str, Any] = {name: getattr(world, name) for name in world.__dataclass_fields__}
    given = {"body": body, "again": 0}
    calls = tuple(one for one in world.calls if one[0] == "terminate")
    calls += (("terminate", rng.choice([1, 5, 30])),) * (rng.random() < 0.2)
    return Watched(**{**parts, "input": given, "deploys": (), "has_tasks": True, "calls": calls})


@kept_values()
def run_schedule(seed: int, tell: Callable[[str], None] | None = None) -> str | None:
    """None if every law held, or nothing failed; else which law did not hold."""
    program = program_of(seed)
    world = World(seed, program, tell)
    post_clients(world)
    _play(world)
    old = logs_of(world, RUN)
    end = fold(old.get(ROOT, []), Token()).end
    if end is None or end.status not in FAILED:
        return None
    redrive(world, replace(program, is_mended=True))
    return next(iter(broken_laws(world, old, program)), None)


def broken_laws(world: World, old: Mapping[str, list[Record]], program: Watched) -> Iterator[str]:
    """What is wrong with the run that goes on; nothing if the redrive was refused."""
    run_id, called = redriven_id(RUN), program.called
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
    written = [one for log in (*old.values(), *logs.values()) for one in log]
    is_lost = any(one.error and one.error.type == "worker_lost" for one in written)
    done = set[int]() if is_lost else completed(old) & program.clean  # of what was lost, what followed runs again
    if twice := {say for run, _, say in called if run == run_id and say in done}:
        yield f"steps that say {sorted(twice)} had completed, of tasks in which nothing failed, and ran again"
    yield from wrongly_taken(logs, old)
    yield from lost_ends(root, mark.slot, kept)
    yield from stuck(root)
    if fold(root, Token()).end is None:
        yield f"it came to no end: it is {fold(root, Token()).phase}"


def kept_branches(root: list[Record], old: Mapping[str, list[Record]]) -> set[str]:
    """Operations of the tasks that had begun in what is kept, and completed."""
    begun = {record.slot for record in root if isinstance(record.next, Fork)}
    return {token for token, log in old.items() if _slot_of(token) in begun and is_completed(log)}


def completed(logs: Mapping[str, list[Record]]) -> set[int]:
    """What the steps say that completed."""
    done = (one for log in logs.values() for one in log if one.kind is Kind.STEP and one.error is None)
    return {one.output["say"] for one in done if isinstance(one.output, dict) and "say" in one.output}


def wrongly_taken(logs: Mapping[str, list[Record]], old: Mapping[str, list[Record]]) -> Iterator[str]:
    """Each result is taken once, and is that of the same step."""
    taken = [one for log in logs.values() for one in log if one.taken]
    places = [one.taken for one in taken]
    if len(places) != len(set(places)):
        yield f"a result is taken twice: {places}"
    for one in taken:
        token, _, slot = one.taken.partition(":")[2].partition("@")
        source = old[token][int(slot)]
        if (source.node, source.output, source.arguments) != (one.node, one.output, one.arguments):
            yield f"{one.node} took {one.taken}: {source.node}, {source.output}"


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
