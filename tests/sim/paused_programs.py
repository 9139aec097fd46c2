"""Programs of every family, paused for a while: the run, its children, or all workflows."""

from __future__ import annotations

import random
from dataclasses import replace

from tests.sim.programs import Program

_WHEN_S = (0, 0, 1, 1, 5, 9, 10, 11, 29, 31, 61)  # some of them near the delays of a run that gathers starts
_HELD_S = (0, 1, 5, 30, 60, 4_000)
_ONE_RUN = ("pause", "pause child", "pause child")


def with_pauses(program: Program, rng: random.Random) -> Program:
    """Returns the program with up to three pauses, at most one of them of all workflows. Each ends after `held_s`."""
    words = [*rng.choices(_ONE_RUN, k=rng.randint(0, 2)), rng.choice(("stop", *_ONE_RUN))]
    asks = tuple({"type": word, "after_s": rng.choice(_WHEN_S), "held_s": rng.choice(_HELD_S)} for word in words)
    return replace(program, asks=(*program.asks, *asks))
