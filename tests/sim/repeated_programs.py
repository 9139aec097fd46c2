"""Programs of every family in a calm world, where each call is made again: it must have nobody do a step twice.

    a call ── its record ── a worker is woken: a step, which takes its time ─────────────── the step's record
                     └── the same call again: it finds the record, and wakes nobody for this step

Nobody dies here, no message comes twice, and no port fails. So each attempt of a step begins once.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tests.sim.actors import Envelope
from tests.sim.overlap_programs import with_times
from tests.sim.programs import Program

if TYPE_CHECKING:
    from tests.sim.world import World

_AFTER_MS = (0, 0, 1, 50, 500, 5_000)
_MOST = 2  # more times that each call is made


def with_repeats(program: Program, rng: random.Random) -> Program:
    """Returns the program with steps that take time, and one call of each operation: copies come after it."""
    return replace(with_times(program, rng), repeats=True, deploys=(), calls=program.calls * 2)


def make_calm(world: World) -> None:
    """Nobody dies, and nothing comes twice but calls."""
    chances = world.chances
    chances.crash = chances.error = chances.double = chances.early = 0
    chances.skew_ms = 0


def repeat_call(world: World, envelope: Envelope) -> None:
    """Has a client that was answered make its call again, or send its event again."""
    again = envelope.again + 1
    if world.main.repeats and again <= _MOST and envelope.body["type"] in _REPEATED:
        at_ms = world.now_ms + world.rng.choice(_AFTER_MS)
        world.post(Envelope(envelope.kind, envelope.body, at_ms, again=again))


def watch_twice(world: World, call: Any) -> None:
    """A step begins: in a calm world it is the first time."""
    if not world.main.repeats:
        return
    if len(world.seen_of[call.run_id].given[call.key, call.attempt]) > 1:
        world.wrong.append(f"law 14: {call.run_id} {call.token} begins {call.node} twice, in attempt {call.attempt}")


_REPEATED: frozenset[str] = frozenset({
    "approve", "reject", "post", "fail", "beat", "signal", "update", "start", "begin", "pause", "unpause", "cancel",
    "terminate", "redrive", "delegate", "publish", "gather", "again",
})  # fmt: skip
