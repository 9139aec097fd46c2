"""Random workflows that wait for several things: documents, votes, all of several events, events that stay."""

from __future__ import annotations

import random
from typing import Any

from stepwell.definition.graph import END, Approvers, EventSettings, Graph, Node, Rule, Step, Wait
from tests.sim.programs import KEY, TOPICS, Program, Simple

VOTERS = ("p0", "p1", "p2")


def make_parts(rng: random.Random) -> Program:
    """A step, a wait for several things, a step, perhaps once more; and more events than it needs."""
    wait = _wait(rng)
    again = Rule("n2.branch[0]", "branch", None, to="n1", max_uses=rng.choice([0, 0, 1, 2]))
    nodes = {
        "n0": Node("n0", step=Step("python:sim.n0"), rules=(Rule("n0.next", "next", to="n1"),)),
        "n1": Node("n1", wait=wait, rules=(Rule("n1.next", "next", to="n2"),)),
        "n2": Node("n2", step=Step("python:sim.n2"), rules=(again, Rule("n2.next", "next", to=END))),
    }
    stays = rng.random() < 0.3
    events = {topic: EventSettings(consume_on_read=False) for topic in TOPICS} if stays else {}
    graph = Graph("sim", "sha256:sim", "timeline", "n0", nodes, {}, events=events)
    names = ["DOCUMENT_UPLOADED"] if wait.kind == "document" else list(TOPICS)
    sent = tuple((rng.choice(names), f"e{number}", rng.randint(0, 3)) for number in range(rng.randint(1, 6)))
    calls = [(rng.choice(["approve", "approve", "approve", "reject"]), rng.choice([0, 0, 1, 60])) for _ in range(5)]
    calls = calls if _asks(wait) else []
    calls += [("cancel", rng.choice([0, 1, 60]))] * (rng.random() < 0.15)
    return Program(graph, {}, {}, frozenset(), sent, tuple(calls), voters=VOTERS)


def _asks(wait: Wait) -> bool:
    return any(arm.kind == "approval" for arm in wait.arms or (wait,))


def _wait(rng: random.Random) -> Wait:
    timeout_ms, on_timeout = rng.choice([1_000, 60_000, 3_600_000]), rng.choice(["continue", "retry", "fail"])
    kind = rng.choice(["document", "approval", "all", "all", "event"])
    if kind == "document":
        names = [f"d{number}" for number in range(rng.randint(1, 3))]
        asked = Simple("documents", lambda _: names)
        return Wait("document", event="DOCUMENT_UPLOADED", key=KEY, documents=asked, timeout_ms=timeout_ms,
                    on_timeout=on_timeout, max_retries=2)  # fmt: skip
    if kind == "all":
        arms = [Wait("event", event=topic, key=KEY) for topic in TOPICS]
        arms += [Wait("approval")] if rng.random() < 0.5 else []
        return Wait("all", arms=tuple(arms), timeout_ms=timeout_ms, on_timeout=on_timeout, max_retries=2)
    if kind == "approval":
        escalate: dict[str, Any] = {"escalate_after_ms": 500, "escalate_to": Simple("to", lambda _: ["p2"])}
        some = rng.random() < 0.5
        of = Simple("of", lambda _: list(VOTERS[:2]) if some else list(VOTERS))
        approvers = Approvers(need=2, of=of, **(escalate if some else {}))
        return Wait("approval", approvers=approvers, timeout_ms=timeout_ms, on_timeout=on_timeout, max_retries=2)
    return Wait("event", event="a", key=KEY, timeout_ms=timeout_ms, on_timeout=on_timeout, max_retries=2)
