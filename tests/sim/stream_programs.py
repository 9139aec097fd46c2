"""Random durable programs whose steps emit live output, for readers that look again and again. Some start others."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tests.sim.asked_programs import make_asked
from tests.sim.programs import Program
from tests.sim.task_programs import make_tasks

_WHEN_S = (0, 0, 0, 1, 1, 2, 5, 30, 60, 600)


def make_streamed(rng: random.Random) -> Program:
    """A function with tasks or callers; half of them await child runs."""
    make, kids = rng.choice([make_tasks, make_asked]), rng.random() < 0.5
    world = make(rng, kids=kids)
    reads = [_read(reader, rng.choice(_WHEN_S)) for reader in ("r0", "r1") for _ in range(rng.randint(2, 8))]
    return replace(world, emits=rng.choice([1, 2, 3]), asks=(*world.asks, *reads))


def _read(reader: str, after_s: int) -> Mapping[str, Any]:
    return {"type": "read", "name": reader, "id": "", "after_s": after_s}
