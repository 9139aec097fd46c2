"""Small programs in which somebody is held up at one call, while something happens that should not go with it."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from stepwell.definition.graph import (
    END,
    Call,
    Child,
    Concurrency,
    EventSettings,
    FanIn,
    Graph,
    Node,
    RateLimit,
    Rule,
    Step,
    Wait,
)
from stepwell.engine.waits import event_topic, run_topic
from tests.sim import lock_programs as parts
from tests.sim.answered_programs import make_answered, make_beaten
from tests.sim.child_programs import Family
from tests.sim.fn_programs import durable
from tests.sim.fork_programs import items
from tests.sim.gather_programs import make_gathered
from tests.sim.programs import KEY, Program
from tests.sim.race_programs import make_race
from tests.sim.retried_programs import make_resulted, make_retried
from tests.sim.snags import HELD, Snag
from tests.sim.throttle_programs import make_disbanded
from tests.sim.tree import RUN
from tests.sim.zombies import make_held

_SOON_MS, _LATER_MS = (1,), (1_500, 5_000)  # once nobody has anything else to do, and after those


def make_raced(rng: random.Random) -> Program:
    """One event for one wait: its message is held up, or is another's by then, and its worker is held up as well."""
    offers = Snag("publish", rng.choice(("waiters", "get_event", "put_event")), rng.choice(("", "consume", "consume")),
                  most=1, held_ms=(1, 1_500))  # fmt: skip
    waits = Snag("wake", rng.choice(("append", "change_status", "put_waiter")), held_ms=_SOON_MS)
    looks = Snag("wake", rng.choice(("consume", "pending_events")), held_ms=_LATER_MS)
    return replace(make_race(rng), snags=(offers, waits, looks))


def make_overtaken(rng: random.Random) -> Program:
    """A wait for the first of two events. Its worker dies before it has registered it, and is held up then.

    One event came before, and stays for others; the other's message finds the wait in the run's log.
    """
    arms = (Wait("event", event="a", key=KEY), Wait("event", event="b", key=KEY))
    nodes = {
        "n0": Node("n0", step=Step("python:sim.n0"), rules=parts._next("n0", "n1")),
        "n1": Node("n1", wait=Wait("any", arms=arms), rules=parts._next("n1", "n2")),
        "n2": Node("n2", step=Step("python:sim.n2"), rules=parts._next("n2", END)),
    }
    stays = {"a": EventSettings(consume_on_read=False)} if rng.random() < 0.8 else {}
    older, newer = event_topic("a", rng.choice(["k", "k", ""])), run_topic("b", RUN)
    asks = tuple({"type": "event", "topic": one, "phase": HELD} for one in (older, older, newer, newer))
    writes = Snag("wake", "append", "append", lets=1, most=1, held_ms=_SOON_MS)
    registers = Snag("wake", rng.choice(("put_waiter", "change_status", "load")), lets=rng.choice((0, 1, 2)), most=2,
                     held_ms=_LATER_MS)  # fmt: skip
    offers = Snag("publish", rng.choice(("append", "append", "send")), rng.choice(("append", "append", "")),
                  held_ms=_SOON_MS)  # fmt: skip
    graph = replace(parts._graph("sim", nodes), events=stays)
    return Program(graph, {}, {}, frozenset(), (), (), asks=asks, snags=(writes, registers, offers))


def make_crowded(rng: random.Random) -> Program:
    """Runs under a limit, one of which is ended while it asks for its permit, before others ask."""
    takes_late = Snag("wake", rng.choice(("put_note", "put_note", "put_note", "read_log")),
                      rng.choice(("", "put_note", "put_note", "put_note")), lets=rng.choice((0, 1, 1, 1)),
                      most=rng.choice((1, 1, 2)), held_ms=_SOON_MS)  # fmt: skip
    asks_late = Snag("wake", "notes", lets=rng.choice((2, 3)), held_ms=(1_500,))
    limit = Concurrency(rng.choice([1, 2, 2, 2]), rng.choice([None, KEY]), "queue")
    return _crowd(rng, limit, None, (takes_late, asks_late))


def make_paced(rng: random.Random) -> Program:
    """Runs under a rate limit. One is ended while it takes its turn, or while it has one and others ask later."""
    pace = RateLimit(1, rng.choice([10_000, 30_000]), rng.choice([1, 1, 2]))
    takes_late = Snag("wake", "put_note", lets=rng.randint(1, 5), most=1, held_ms=_SOON_MS)
    asks_late = Snag("wake", "load", lets=rng.randint(3, 6), held_ms=(1_500,))
    if rng.random() < 0.4:
        return _crowd(rng, None, pace, (takes_late, asks_late))
    if rng.random() < 0.5:  # who ends it and its worker give its turn back at once
        has_turn = Snag("wake", "read_log", lets=rng.randint(0, 3), most=1, held_ms=(1_500,))
        ends = (Snag(f"{word} child", "drop_note", most=1, held_ms=_LATER_MS) for word in ("cancel", "terminate"))
        return _crowd(rng, None, pace, (has_turn, *ends))
    made = _crowd(rng, None, pace, (asks_late,))
    return replace(made, asks=tuple({**ask, "of_any": True, "after_s": 1} for ask in made.asks))


def _crowd(rng: random.Random, limit: Concurrency | None, pace: RateLimit | None, snags: tuple[Snag, ...]) -> Program:
    """A run that starts five others at once, of which it needs none. Each has a step, a long wait and a step."""
    wait = Wait("sleep", timeout_ms=rng.choice([1_000, 60_000, 60_000]))
    nodes = {
        "n0": Node("n0", step=Step("python:sim.n0"), rules=parts._next("n0", "n1")),
        "n1": Node("n1", wait=wait, rules=parts._next("n1", "n2")),
        "n2": Node("n2", step=Step("python:sim.n2"), rules=parts._next("n2", END)),
    }
    graph = replace(parts._graph("kid0", nodes), concurrency=limit, rate_limit=pace)
    call = Call(tuple(Child(f"c{number}", "kid0") for number in range(5)), failed_child="return", siblings="finish",
                parent_close="cancel")  # fmt: skip
    above = Graph(
        "sim", "sha256:sim", "timeline", "n0", {"n0": Node("n0", call=call, rules=parts._next("n0", END))}, {}
    )
    word = rng.choice(("terminate child", "cancel child"))
    asks = tuple({"type": word, "after_s": 0, "phase": HELD} for _ in range(rng.choice((1, 2))))
    return Family(above, {}, {}, frozenset(), (), (), callees=(parts._program(rng, graph, {}),), asks=asks, snags=snags)


def make_doubled(rng: random.Random) -> Program:
    """Starts that become part of a run, each made twice at once, of which one is held up."""
    made = make_gathered(rng)
    (callee,) = made.callees
    limit = Concurrency(1, None, rng.choice(["queue", "cancel_oldest"]))
    callee = replace(callee, graph=replace(callee.graph, concurrency=limit))
    call = rng.choice(("get_note", "pending_events", "put_event", "append", "get_run"))
    snag = Snag("gather", call, rng.choice(("", "create_run", "create_run", "append")), chance=0.5)
    return replace(made, callees=(callee,), asks=(*made.asks, *made.asks), snags=(snag,))


def make_patched(rng: random.Random) -> Program:
    """A function whose code is deployed anew, or broken, while workers with a copy each are about to append."""
    body = [_patched(rng, 1), *(_statement(rng, number) for number in range(2, rng.randint(3, 6)))]
    words = rng.choice((("patch",), ("break",), ("patch", "break"), ("reload", "patch")))
    asks = [{"type": word, "phase": HELD} for word in words]
    dies = "append" if "break" in words and rng.random() < 0.7 else ""
    soon = Snag("wake", "append", dies, True, most=1, held_ms=_SOON_MS)
    later = Snag("wake", "append", dies, True, most=rng.choice((1, 2, 4)), held_ms=_LATER_MS)
    return replace(durable("sim", 0), input={"body": body, "again": 0}, asks=tuple(asks), snags=(soon, later))


def _statement(rng: random.Random, number: int) -> dict[str, Any]:
    kind = rng.random()
    if kind < 0.4:
        return _patched(rng, number)
    return _step(number) if kind < 0.8 else {"do": "sleep", "seconds": 1}


def _patched(rng: random.Random, number: int) -> dict[str, Any]:
    """Another step, or one more."""
    old = [{**_step(number), "name": "s1"}] if rng.random() < 0.5 else []
    return {"do": "patched", "name": f"p{number}", "new": [_step(-number)], "old": old}


def _step(number: int) -> dict[str, Any]:
    return {"do": "step", "say": number, "name": "s0"}


def make_stopped(rng: random.Random) -> Program:
    """A chain of steps that take a second each, paused and resumed by clients who are held up."""
    pause = {"type": "pause"}
    soon = [{**pause, "after_s": rng.randint(0, 2), "held_s": rng.choice((1, 3, 30))} for _ in range(2)]
    then = [{**pause, "after_s": rng.randint(0, 3), "held_s": rng.choice((3, 30, 300)), "phase": HELD} for _ in "123"]
    who, call = rng.choice(_OF_PAUSES)
    snag = Snag(who, call, rng.choice(("", "hold")), chance=rng.choice((0.3, 1)))
    return replace(make_held(rng), asks=(*soon, *then), snags=(snag,))


def make_broadcast(rng: random.Random) -> Program:
    """Branches that wait for one event which stays. Who tells them of it has time for a few, and hands the rest on."""
    over = Rule("n0.next", "next", to="n1", foreach=items("n0"))
    wait = Wait("event", event="a", key=KEY, timeout_ms=3_600_000, on_timeout="continue")
    nodes = {
        "n0": Node("n0", rules=(over,), join="n3"),
        "n1": Node("n1", wait=wait, rules=parts._next("n1", "n2")),
        "n2": Node("n2", step=Step("python:sim.n2"), rules=parts._next("n2", "n3")),
        "n3": Node("n3", fan_in=FanIn(), rules=parts._next("n3", END)),
    }
    stays = {"a": EventSettings(consume_on_read=False)}
    graph = Graph("sim", "sha256:sim", "nodes", "n0", nodes, {}, events=stays)
    topic = rng.choice((event_topic("a", "k"), run_topic("a", RUN)))
    asks = tuple({"type": "event", "topic": topic, "phase": HELD} for _ in range(rng.choice((1, 2))))
    waits = Snag("wake", "put_waiter", lets=rng.randint(1, 6), most=1, held_ms=_SOON_MS)
    tells = Snag("publish", rng.choice(("waiters", "append", "send")), held_ms=(1, 1_500), chance=0.5)
    given = {"key": "k", "n0": list(range(rng.randint(3, 6)))}
    return Program(graph, {}, {}, frozenset(), (), (), input=given, asks=asks, snags=(waits, tells))


_OF_PAUSES = (("pause", "get_run"), ("pause", "hold"), ("unpause", "hold"), ("unpause", "hold"), ("go_on", "hold"))
SNAGGED = (
    make_raced, make_crowded, make_doubled, make_patched, make_stopped, make_paced, make_overtaken, make_retried,
    make_resulted, make_disbanded, make_answered, make_beaten, make_broadcast,
)  # fmt: skip
