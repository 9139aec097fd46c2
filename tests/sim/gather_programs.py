"""Random starts of a workflow that gathers them: of few keys, close together, some of them repeated."""

from __future__ import annotations

import random
from dataclasses import replace

from stepwell.definition.graph import END, Concurrency, Gathering, Graph, Node
from tests.sim import lock_programs as parts
from tests.sim.programs import KEY, Program

GATHERS = "gathers"  # the workflow


def make_gathered(rng: random.Random) -> Program:
    """A short run, and clients that start another workflow: three to six times, at moments that are near its delays."""
    nodes = {"n0": Node("n0", rules=parts._next("n0", END))}
    graph = Graph("sim", "sha256:sim", "timeline", "n0", nodes, {})
    asks = tuple(
        {
            "type": "gather",
            "id": f"s{number if rng.random() < 0.8 else 0}",
            "name": "" if rng.random() < 0.1 else rng.choice(["k", "k", "j"]),
            "after_s": rng.choice([0, 0, 1, 5, 10, 11, 30]),
        }
        for number in range(rng.randint(3, 6))
    )
    keys: dict[str, str] = {}
    asks = tuple({**ask, "name": keys.setdefault(str(ask["id"]), str(ask["name"]))} for ask in asks)
    calls = [(f"{word} child", rng.choice([0, 1, 10, 30])) for word in ("cancel", "terminate") if rng.random() < 0.2]
    return Program(graph, {}, {}, frozenset(), (), tuple(calls), callees=(_gathering(rng),), asks=asks)


def _gathering(rng: random.Random) -> Program:
    nodes, more = parts._chain(rng, rng.randint(1, 2))
    if rng.random() < 0.5:
        gathering = Gathering("debounce", rng.choice([10_000, 30_000]), 10_000, key=KEY)
    else:
        gathering = Gathering("batch", rng.choice([10_000, 2_000_000]), max_size=rng.choice([1, 2, 3]), key=KEY)
    limit = Concurrency(1, None, rng.choice(["queue", "queue", "cancel_oldest"])) if rng.random() < 0.3 else None
    timeout_ms = rng.choice([None, None, None, 5_000, 3_600_000])
    graph = replace(parts._graph(GATHERS, nodes), gathering=gathering, concurrency=limit, timeout_ms=timeout_ms)
    return parts._program(rng, graph, more)
