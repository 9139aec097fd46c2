"""Random schedules of redrives: a run fails, its code is mended, and several callers redrive it under crashes."""

from __future__ import annotations

import gc
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from stepwell.engine.fold import fold
from stepwell.engine.records import ROOT, Goto, Kind, Record, Status
from stepwell.engine.stored.codec import decode_record
from stepwell.engine.token import Token
from stepwell.runtime.starts.ids import redriven_id
from tests.sim.actors import Envelope
from tests.sim.clients import post_clients
from tests.sim.kept import kept_values
from tests.sim.programs import Program, Undoing, make_timeline
from tests.sim.schedule import _play
from tests.sim.world import World

RUN = "run_sim"
CALLERS = 3


def program_of(seed: int) -> Program:
    """A workflow without forks, one of whose steps fails until it is mended."""
    rng = random.Random(f"redrive {seed}")
    program = make_timeline(rng)
    steps = [name for name, node in program.graph.nodes.items() if node.step]
    broken = frozenset(rng.sample(steps, 1)) if steps else frozenset()
    return replace(program, undoing=Undoing(broken=broken), deploys=())


@kept_values()
def run_schedule(seed: int, tell: Callable[[str], None] | None = None) -> str | None:
    """None if every law held, or nothing failed; else which law did not hold."""
    program = program_of(seed)
    world = World(seed, program, tell)
    post_clients(world)
    _play(world)
    old = log_of(world, RUN)
    token = fold(old, Token())
    if token.end is None or token.end.status not in {Status.FAILED, Status.TIMED_OUT, Status.CANCELLED}:
        return None
    redrive(world, replace(program, undoing=None, blocked=frozenset()))
    return next(iter(broken_laws(world, old)), None)


def redrive(world: World, mended: Program) -> None:
    """Has several callers redrive the run, whose code is mended."""
    world.programs = {mended.graph.name: mended}
    for caller in range(CALLERS):
        world.post(Envelope("client", {"type": "redrive"}, world.now_ms + 500 * caller))
    world.calls = 0  # the second part is as hostile as the first
    _play(world)


def breaks(run: Callable[[int], str | None], seed: int) -> bool:
    """Whether a law does not hold under this schedule. A mutant may also leave a log that cannot be read."""
    try:
        return run(seed) is not None
    except Exception as fault:
        return bool(str(fault))


@contextmanager
def left_here() -> Iterator[None]:
    """Collects what stopped worlds leave behind within the test, and looks for it among what was made since."""
    gc.freeze()
    yield
    gc.collect()


def log_of(world: World, run_id: str) -> list[Record]:
    log = world.memory._logs.get((run_id, ROOT))
    return [decode_record(saved.body) for saved in log.after(-1, None)] if log else []


def broken_laws(world: World, old: list[Record]) -> Iterator[str]:
    """What is wrong with the run that goes on; nothing if the redrive was refused."""
    run_id = redriven_id(RUN)
    header = world.memory._runs.get(run_id)
    was_made = any(one.startswith("redrive: Started") for one in world.seen.answered)
    log = log_of(world, run_id)
    if header is None:
        if log or was_made:
            yield "a redrive was acknowledged, and there is no run"
        return
    marks = [record for record in log if record.kind is Kind.REDRIVEN]
    if [record.slot for record in log] != list(range(len(log))) or len(marks) != 1:
        yield f"the log has the slots {[record.slot for record in log]} and {len(marks)} marks"
        return
    (mark,) = marks
    if log[: mark.slot] != old[: mark.slot]:
        yield "what it keeps is not what the failed run had"
    if any(isinstance(record.next, Goto) for record in old[mark.slot :]):
        yield "a step that completed is not kept"
    if mark.slot and not (isinstance(old[mark.slot - 1].next, Goto) or old[mark.slot - 1].kind is Kind.STARTED):
        yield "part of the visit that failed is kept"
    token = fold(log, Token())
    if token.end is None and (token.parked is None or token.parked.until_ms is not None):
        yield f"it came to no end: it is {token.phase}"
    if token.end is not None and header.status != token.end.status:
        yield f"its header says {header.status}"
    yield from wrong_keys(world, run_id, mark)


def wrong_keys(world: World, run_id: str, mark: Record) -> Iterator[str]:
    """Only the visit that failed keeps its key, but for its wait's new time-out; what was completed is not run."""
    for key, _ in world.seen_of[run_id].given:
        origin, slot = key.split(":")[0], int(key.rpartition(":")[2])
        is_of_timeout = ":action." in key and slot == mark.slot
        if origin == run_id and slot <= mark.slot and not is_of_timeout:
            yield f"a step ran under {key}, which belongs to what was kept"
        if origin != run_id and (origin, slot) != (mark.keyed_by, mark.slot):
            yield f"a step ran under {key}, and not under that of the failed visit"
