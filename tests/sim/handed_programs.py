"""Random workflows whose waits are handed on, or kept alive: delegations of approvals, heartbeats of callbacks."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from stepwell.definition.graph import END, Approvers, Graph, Node, Rule, Step, Wait
from stepwell.engine.records import Kind, Parked, Record, Resumption
from stepwell.engine.waits.callback import BEAT
from tests.sim.part_laws import asked_of
from tests.sim.programs import Program, Simple
from tests.sim.world import World

ASKED = ("p0", "p1")
OTHERS = ("p2", "p3")  # to whom an approval is handed on
_WHEN_S = (0, 0, 0, 1, 1, 5, 40, 60)
_VOTES = frozenset({"approved", "rejected"})


def make_handed(rng: random.Random) -> Program:
    """A step, a wait for people or for a system outside, a step; and callers who answer, hand on and beat."""
    is_callback = rng.random() < 0.5
    nodes = {
        "n0": Node("n0", step=Step("python:sim.n0"), rules=(Rule("n0.next", "next", to="n1"),)),
        "n1": Node("n1", wait=_callback(rng) if is_callback else _approval(rng),
                   rules=(Rule("n1.next", "next", to="n2"),)),
        "n2": Node("n2", step=Step("python:sim.n2"), rules=(Rule("n2.next", "next", to=END),)),
    }  # fmt: skip
    operations = ["beat", "beat", "beat", "post"] if is_callback else ["delegate", "delegate", "approve", "reject"]
    calls = [(rng.choice(operations), rng.choice(_WHEN_S)) for _ in range(rng.randint(2, 7))]
    calls += [("cancel", rng.choice([0, 1, 60]))] * (rng.random() < 0.15)
    graph = Graph("sim", "sha256:sim", "timeline", "n0", nodes, {})
    return Program(graph, {}, {}, frozenset(), (), tuple(calls), voters=(*ASKED, *OTHERS))


def _approval(rng: random.Random) -> Wait:
    escalates: dict[str, Any] = {"escalate_after_ms": 5_000, "escalate_to": Simple("to", lambda _: ["p3"])}
    more = escalates if rng.random() < 0.3 else {}
    approvers = Approvers(need=rng.choice([1, 2]), of=Simple("of", lambda _: list(ASKED)), **more)
    return Wait("approval", approvers=approvers, timeout_ms=rng.choice([20_000, 3_600_000]), on_timeout="continue")


def _callback(rng: random.Random) -> Wait:
    return Wait("callback", heartbeat_ms=rng.choice([2_000, 30_000]), timeout_ms=3_600_000, on_timeout="continue")


def laws_of_handed(world: World, logs: dict[str, list[Record]]) -> Iterator[str]:
    """Tells what is broken: who answers or hands on is asked, and a system that beats is not taken for dead."""
    for token, log in logs.items():
        parked: Parked | None = None
        came: list[Resumption] = []
        for record in log:
            if record.kind is Kind.WAITING and record.parked is not None:
                parked, came = record.parked, came if record.attempt else []  # a wait that is retried keeps what came
            elif record.resumption is not None and parked is not None:
                yield from (f"law 4: {token} slot {record.slot} {why}" for why in _odd(parked, came, record))
                came.append(record.resumption)
    handed = {(one.by, one.payload["to"]) for one in _came(logs) if one.kind == "delegated"}
    for told in world.seen.told:
        if told.what == "delegate" and told.answer is None and (told.name, told.id) not in handed:
            yield f"law 4: {told.name} handed an approval on to {told.id}, and no record says so"


def _came(logs: dict[str, list[Record]]) -> Iterator[Resumption]:
    yield from (record.resumption for log in logs.values() for record in log if record.resumption is not None)


def _odd(parked: Parked, before: list[Resumption], record: Record) -> Iterator[str]:
    came = record.resumption
    if came is None:
        return
    if came.kind == "timeout" and came.name == BEAT:
        beats = [one.payload["at_ms"] for one in before if one.kind == BEAT]
        if record.at_ms < max([parked.since_ms, *beats]) + (parked.heartbeat_ms or 0):
            yield "takes a system for dead whose heartbeat it has"
    arm = parked.arms[came.arm]
    if came.kind not in {*_VOTES, "delegated"} or not arm.parts:
        return
    if came.by not in asked_of(arm, before) - {one.by for one in before if one.kind in _VOTES and one.arm == came.arm}:
        yield f"has {came.kind} of {came.by}, who is not asked"
