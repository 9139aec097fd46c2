"""Random workflows with several approvals in one wait, each answered by its name or not, and events that stay."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any

from stepwell.definition.graph import END, Approvers, EventSettings, Graph, Node, Rule, Step, Wait
from stepwell.engine.records import Arm, Kind, Parked, Record, Resumption
from tests.sim.programs import KEY, Program, Simple
from tests.sim.world import World

PEOPLE = ("p0", "p1", "p2")
STAYS = "a"  # the event that is not consumed
_NAMES = ("approval", "approval_2", "approval_3")
_WHEN_S = (0, 0, 0, 1, 1, 5, 40, 60)


def make_several(rng: random.Random) -> Program:
    """A step, a wait for two or three approvals, perhaps beside events, a step; and people who answer and hand on."""
    arms = [Wait("approval", approvers=_approvers(rng)) for _ in range(rng.choice([2, 2, 3]))]
    events = [Wait("event", event=STAYS, key=KEY) for _ in range(rng.choice([0, 0, 1, 2]))]
    mixed = rng.sample([*arms, *events], len(arms) + len(events))
    kind, timeout_ms = rng.choice(["all", "all", "all", "any"]), rng.choice([20_000, 3_600_000])
    wait = Wait(kind, arms=tuple(mixed), timeout_ms=timeout_ms, on_timeout=rng.choice(["continue", "retry"]),
                max_retries=1)  # fmt: skip
    nodes = {
        "n0": Node("n0", step=Step("python:sim.n0"), rules=(Rule("n0.next", "next", to="n1"),)),
        "n1": Node("n1", wait=wait, rules=(Rule("n1.next", "next", to="n2"),)),
        "n2": Node("n2", step=Step("python:sim.n2"), rules=(Rule("n2.next", "next", to=END),)),
    }
    stays = {STAYS: EventSettings(consume_on_read=False)}
    graph = Graph("sim", "sha256:sim", "timeline", "n0", nodes, {}, events=stays)
    sent = tuple((STAYS, f"e{number}", 0) for number in range(len(events) and rng.randint(1, 2)))
    calls = (("cancel", rng.choice([1, 60])),) * (rng.random() < 0.1)
    asks = tuple(_ask(rng, _NAMES[: len(arms)]) for _ in range(rng.randint(3, 9)))
    return Program(graph, {}, {}, frozenset(), sent, calls, voters=PEOPLE, asks=asks)


def _approvers(rng: random.Random) -> Approvers:
    named = tuple(rng.sample(PEOPLE, rng.choice([1, 2, 2])))
    return Approvers(need=rng.randint(1, len(named)), of=Simple("of", lambda _: [*named]))


def _ask(rng: random.Random, names: tuple[str, ...]) -> Mapping[str, Any]:
    """What a person does: `name` is theirs, and `id` the approval that they mean, or to whom they hand on."""
    who, name = rng.choice(PEOPLE), rng.choice([*names, *names, ""])
    what, wait = rng.choice(["approve"] * 5 + ["reject", "delegate"]), f"n1/{name}" if name else ""
    found = {"type": what, "wait": wait, "name": who, "who": who, "after_s": rng.choice(_WHEN_S)}
    return {**found, "id": rng.choice([one for one in PEOPLE if one != who]) if what == "delegate" else name}


def laws_of_several(world: World, logs: dict[str, list[Record]]) -> Iterator[str]:
    """An answer by name counts for that approval, and an event that stays for each arm that it fits."""
    if not any("wait" in ask for ask in world.program.asks):
        return
    answers = {(one.by, arm.name, one.kind) for one, arm in _came(logs)}
    for told in world.seen.told:
        made = {"approve": "approved", "reject": "rejected"}.get(told.what)
        if made and told.id and not isinstance(told.answer, str) and (told.name, told.id, made) not in answers:
            yield f"law 4: {told.name} has {made} {told.id}, and no record says so"
    for token, log in logs.items():
        yield from (f"law 4: {token} slot {slot} times out beside its event" for slot in _beside_its_event(log))


def _came(logs: Mapping[str, list[Record]]) -> Iterator[tuple[Resumption, Arm]]:
    """What came for waits, and for which arm."""
    for log in logs.values():
        parked: Parked | None = None
        for record in log:
            parked = record.parked if record.kind is Kind.WAITING else parked
            if parked is not None and record.resumption is not None:
                yield record.resumption, parked.arms[record.resumption.arm]


def _beside_its_event(log: list[Record]) -> Iterator[int]:
    """The slots of time-outs of an `all` in which one of two arms alone has had an event."""
    parked: Parked | None = None
    had: set[int] = set()
    for record in log:
        if record.kind is Kind.WAITING and record.parked is not None:
            parked, had = record.parked, had if record.attempt else set()
        came = record.resumption
        if parked is None or came is None:
            continue
        if came.kind == "event":
            had.add(came.arm)
        elif came.kind == "timeout" and parked.is_all:
            both = {index for index, arm in enumerate(parked.arms) if arm.kind == "event"}
            if had and had != both:
                yield record.slot
