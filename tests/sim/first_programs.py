"""Random workflows that wait for the first of several things, as agents do: an answer, an event, documents, a delay."""

from __future__ import annotations

import random

from stepwell.definition.graph import END, Graph, Node, Rule, Step, Wait
from tests.sim.programs import KEY, Program, Simple

DOCUMENTS = ("d0", "d1")
_NAMES = ("a", "MESSAGE_RECEIVED", "DOCUMENT_UPLOADED")


def make_first(rng: random.Random) -> Program:
    """A step, a wait for the first of several, a step, perhaps once more; and events of all names."""
    again = Rule("n2.branch[0]", "branch", None, to="n1", max_uses=rng.choice([0, 1, 2]))
    nodes = {
        "n0": Node("n0", step=Step("python:sim.n0"), rules=(Rule("n0.next", "next", to="n1"),)),
        "n1": Node("n1", wait=_wait(rng), rules=(Rule("n1.next", "next", to="n2"),)),
        "n2": Node("n2", step=Step("python:sim.n2"), rules=(again, Rule("n2.next", "next", to=END))),
    }
    graph = Graph("sim", "sha256:sim", "actions", "n0", nodes, {})
    sent = tuple((rng.choice(_NAMES), f"e{number}", rng.randint(0, 3)) for number in range(rng.randint(1, 7)))
    calls = (("cancel", rng.choice([0, 1, 60])),) * (rng.random() < 0.15)
    return Program(graph, {}, {}, frozenset(), sent, calls)


def _wait(rng: random.Random) -> Wait:
    arms = [
        Wait("response", event="MESSAGE_RECEIVED", key=KEY, window=rng.choice([0, 2])),
        Wait("event", event="a", key=KEY),
        Wait("document", event="DOCUMENT_UPLOADED", key=KEY, documents=Simple("documents", lambda _: [*DOCUMENTS])),
        Wait("delay", timeout_ms=rng.choice([1_000, 60_000])),
    ]
    chosen = rng.sample(arms, rng.randint(2, 4))
    return Wait("any", arms=tuple(chosen), timeout_ms=rng.choice([None, 1_000, 3_600_000]), max_retries=2,
                on_timeout=rng.choice(["continue", "retry", "fail"]))  # fmt: skip
