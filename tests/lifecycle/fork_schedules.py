"""Random schedules of redrives in forks and DAGs: no step that completed runs again, whoever dies on the way."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from stepwell.engine.fold import fold
from stepwell.engine.forks.branches import branch_id, fork_id
from stepwell.engine.records import ROOT, End, Fork, Kind, Pause, Record, RetryAt, Status
from stepwell.engine.stored.codec import decode_record
from stepwell.engine.token import Token
from stepwell.runtime.starts.ids import redriven_id
from tests.lifecycle.schedules import RUN, redrive
from tests.sim import fork_programs
from tests.sim.clients import post_clients
from tests.sim.dag_programs import make_dag
from tests.sim.kept import kept_values
from tests.sim.programs import Program, Undoing
from tests.sim.schedule import _play
from tests.sim.world import World

FAILED = {Status.FAILED, Status.TIMED_OUT, Status.CANCELLED}


@dataclass(frozen=True)
class Watched(Program):
    """A program that tells what its steps were called for."""

    called: list[tuple[str, str, str]] = field(default_factory=list)  # (run, token, node)

    def outcome(self, call: Any, now_ms: int, seen: Any) -> Any:
        self.called.append((call.run_id, call.token, call.node))
        return super().outcome(call, now_ms, seen)


def program_of(seed: int) -> Watched:
    """A workflow whose branches fail until they are mended: a DAG, a fork, or a fork in each branch of a fork."""
    rng = random.Random(f"redrive fork {seed}")
    kind = rng.random()
    made = make_dag(rng) if kind < 0.4 else fork_programs._small(rng) if kind < 0.8 else nested(rng)
    steps = [name for name, node in made.graph.nodes.items() if node.step and name not in ("n0", "n3")]
    failing = {name: (rng.choice([1, 2, 2, 3]), 0) for name in rng.sample(steps, min(len(steps), 1))}
    if made.is_dag:
        failing = dict.fromkeys(failing, (1, 0))
    parts = {name: getattr(made, name) for name in made.__dataclass_fields__}
    return Watched(**{**parts, "failing": failing, "deploys": ()})


def nested(rng: random.Random) -> Program:
    """n0 ── n1 for each ── n2 for each ── n3 joins ── n4 ── n5 joins."""
    maker = fork_programs._Maker(rng)
    outer = fork_programs.Rule("n0.next", "next", to="n1", foreach=maker.over("n0", rng.randint(1, 3)))
    inner = fork_programs.Rule("n1.next", "next", to="n2", foreach=maker.over("n1", rng.randint(1, 3)))
    node, step, following = fork_programs.Node, fork_programs.Step, fork_programs._next
    maker.nodes = {
        "n0": node("n0", rules=(outer,), join="n5"),
        "n1": node("n1", step=step("python:sim.n1"), rules=(inner,), join="n3"),
        "n2": node("n2", step=step("python:sim.n2"), rules=following("n2", "n3")),
        "n3": node("n3", fan_in=fork_programs.FanIn(), rules=following("n3", "n4")),
        "n4": node("n4", step=step("python:sim.n4"), rules=following("n4", "n5")),
        "n5": node("n5", fan_in=fork_programs.FanIn(), rules=following("n5", fork_programs.END)),
    }
    return maker.program("n0", (("cancel", 1),) * (rng.random() < 0.2), events=0)


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
    mended = replace(program, failing={}, undoing=Undoing() if program.undoing else None, blocked=frozenset())
    redrive(world, mended)
    return next(iter(broken_laws(world, old, program.called)), None)


def logs_of(world: World, run_id: str) -> dict[str, list[Record]]:
    found = {}
    for (run, token), log in world.memory._logs.items():
        if run == run_id:
            found[token] = [decode_record(saved.body) for saved in log.after(-1, None)]
    return {token: log for token, log in found.items() if log}


def path_of(token: str) -> tuple[int, ...]:
    """Which branch it is, in whichever slot its fork was recorded."""
    return tuple(int(part.partition(".")[2]) for part in token.split("/")[1:])


def completed_steps(logs: dict[str, list[Record]]) -> set[tuple[tuple[int, ...], str]]:
    return {
        (path_of(token), record.node)
        for token, log in logs.items()
        for record in log
        if record.kind is Kind.STEP and record.error is None and not isinstance(record.next, Pause | RetryAt)
    }


def broken_laws(world: World, old: dict[str, list[Record]], called: list[tuple[str, str, str]]) -> Iterator[str]:
    """What is wrong with the run that goes on; nothing if the redrive was refused."""
    run_id = redriven_id(RUN)
    logs = logs_of(world, run_id)
    if run_id not in world.memory._runs:
        if any(one.startswith("redrive: Started") for one in world.seen.answered):
            yield "a redrive was acknowledged, and there is no run"
        return
    root = logs.get(ROOT, [])
    marks = [record for record in root if record.kind is Kind.REDRIVEN]
    if len(marks) != 1:
        yield f"the log has {len(marks)} marks"
        return
    (mark,) = marks
    again = completed_steps(old) & {(path_of(token), node) for run, token, node in called if run == run_id}
    if again:
        yield f"{sorted(again)} had completed, and ran again"
    yield from not_kept(mark, old, logs)
    yield from unended(logs)


def not_kept(mark: Record, old: dict[str, list[Record]], logs: dict[str, list[Record]]) -> Iterator[str]:
    """A branch that completed in the fork where the run failed has the same log."""
    if mark.reopens is None:
        return
    was = next(record for record in reversed(old[ROOT]) if isinstance(record.next, Fork))
    for index in range(mark.reopens.width):
        before = old.get(branch_id(fork_id(ROOT, was.slot), index), [])
        end = before[-1].next if before else None
        is_kept = isinstance(end, End) and end.status is Status.COMPLETED
        if is_kept and logs.get(branch_id(fork_id(ROOT, mark.slot + 1), index)) != before:
            yield f"branch {index} completed, and is not kept as it was"
        if is_kept != (index in mark.reopens.kept):
            yield f"branch {index} is said to be kept, or not to be, and the opposite holds"


def unended(logs: dict[str, list[Record]]) -> Iterator[str]:
    """The run ends, unless all that is left of it waits for something that never comes."""
    root = fold(logs[ROOT], Token())
    if root.end is not None:
        return
    if not isinstance(root.last.next if root.last else None, Fork):
        if root.parked is None or root.parked.until_ms is not None:
            yield f"it came to no end: it is {root.phase}"
        return
    branches = [fold(log, Token(token)) for token, log in logs.items() if token != ROOT]
    live = [one for one in branches if not one.ended and not isinstance(one.last.next if one.last else None, Fork)]
    if not any(one.parked is not None and one.resumption is None for one in live):
        yield f"it stands at its fork, and no branch waits: {[(one.id, one.phase.value) for one in live]}"
