"""Random schedules of redriven waits: what the failed wait had is sent again by callers who are held up, and die.

failed run   waits ── documents, events, votes ── its time is up, or it is cancelled
redrives     held up at a call ── each part once more ── dies ── another caller does the same
new run      goes on as soon as one of them has said so, takes each part once, and gets the others late
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from stepwell.definition.graph import END, EventSettings, Graph, Node, Rule, Step, Wait
from stepwell.engine.fold import fold
from stepwell.engine.records import Kind, Record, Resumption, Status, Topic
from stepwell.engine.token import Token
from stepwell.engine.waits import event_topic, run_topic
from stepwell.limits import DAY_MS
from stepwell.runtime.log.messages import Publish, to_json
from stepwell.runtime.ports import Event, Lane
from stepwell.runtime.starts.ids import redriven_id
from tests.lifecycle.schedules import CALLERS, log_of
from tests.sim import schedule
from tests.sim.actors import Envelope
from tests.sim.clients import post_clients
from tests.sim.fork_laws import BrokenLawError
from tests.sim.kept import kept_values
from tests.sim.programs import KEY, TOPICS, Program, Simple
from tests.sim.snags import Snag, make_snags
from tests.sim.tree import RUN
from tests.sim.world import World

PAPERS, NAME = ("d0", "d1", "d9"), "DOCUMENT_UPLOADED"
_NUMBERS = (0, 0, 1, 1, 1, 9)  # the last is needed, and comes rarely in time
_TAKES = frozenset({Kind.RECEIVED, Kind.RESUMED})
_OVER = frozenset({Status.TIMED_OUT, Status.FAILED, Status.CANCELLED})
_CALLS = ("put_event", "put_event", "put_event", "append", "create_run", "send")


def program_of(seed: int) -> Program:
    """A wait for documents, or for two events and a person, that seldom gets all of them; perhaps once more."""
    rng = random.Random(f"parts {seed}")
    again = Rule("n2.branch[0]", "branch", None, to="n1", max_uses=rng.choice((0, 1)))
    nodes = {
        "n0": Node("n0", step=Step("python:sim.n0"), rules=(Rule("n0.next", "next", to="n1"),)),
        "n1": Node("n1", wait=(wait := _wait(rng)), rules=(Rule("n1.next", "next", to="n2"),)),
        "n2": Node("n2", step=Step("python:sim.n2"), rules=(again, Rule("n2.next", "next", to=END))),
    }
    stays = rng.random() < 0.2
    events = {topic: EventSettings(consume_on_read=False) for topic in TOPICS} if stays else {}
    names = [NAME] if wait.kind == "document" else list(TOPICS)[: rng.choice((1, 2, 2))]
    sent = tuple((rng.choice(names), f"e{number}", rng.choice(_NUMBERS)) for number in range(rng.randint(1, 6)))
    calls = (("approve", rng.choice((0, 1, 30))),) * (rng.random() < 0.4) + (("cancel", 31),) * (rng.random() < 0.2)
    at = rng.choice(_CALLS)
    snag = Snag("redrive", at, rng.choice(("", at, "put_event", "append")), rng.random() < 0.5,
                lets=rng.randint(0, 3), most=rng.choice((1, 2, 3)), held_ms=(1, 1_500, 5_000))  # fmt: skip
    graph = Graph("sim", "sha256:sim", "timeline", "n0", nodes, {}, events=events)
    return Program(graph, {}, {}, frozenset(), sent, calls, snags=(snag,), voters=("p0",))


def _wait(rng: random.Random) -> Wait:
    more: dict[str, Any] = {
        "timeout_ms": 60_000, "on_timeout": rng.choice(("fail", "fail", "retry")), "max_retries": 1,
    }  # fmt: skip
    if rng.random() < 0.5:
        return Wait("document", event=NAME, key=KEY, documents=Simple("documents", lambda _: [*PAPERS]), **more)
    arms = (*(Wait("event", event=topic, key=KEY) for topic in TOPICS), Wait("approval"))
    return Wait("all", arms=arms, **more)


@kept_values()
def run_schedule(seed: int, tell: Callable[[str], None] | None = None) -> str | None:
    """None if every law held, or nothing failed; else which law did not hold."""
    world = World(seed, program_of(seed), tell)
    make_snags(world)
    try:
        post_clients(world)
        schedule._play(world)
        old = log_of(world, RUN)
        end = fold(old, Token()).end
        if end is None or end.status not in _OVER:
            return None
        _redrive(world)
        schedule._play(world)
    except BrokenLawError as broken:
        return str(broken)
    finally:
        for actor in world.actors:
            actor.coroutine.close()
    return next(broken_laws(world, old), None)


def _redrive(world: World) -> None:
    """Has several callers redrive the run, while more events come for the new one, or for anybody."""
    new = redriven_id(RUN)
    for caller in range(CALLERS):
        world.post(Envelope("client", {"type": "redrive"}, world.now_ms + 500 * caller))
    wait = world.main.graph.nodes["n1"].wait
    names = (NAME,) if wait is not None and wait.kind == "document" else TOPICS
    for number in range(world.rng.randint(0, 4)):
        name, n = world.rng.choice(names), world.rng.choice(_NUMBERS)
        topic = world.rng.choice((run_topic(name, new), event_topic(name, "k")))
        at_ms = world.now_ms + world.rng.choice((0, 1, 600, 7_000, 30_000))
        event = Event(topic, f"late{number}", {"n": n, "document": f"d{n}"}, at_ms, at_ms + DAY_MS)
        world.post(Envelope(str(Lane.RESUME), to_json(Publish(event)), at_ms))
    vote = {"type": "approve child", "run": new, "wait": "", "who": "p0"}
    world.post(Envelope("client", vote, world.now_ms + 20_000))
    world.calls = 0


def broken_laws(world: World, old: list[Record]) -> Iterator[str]:
    """What is wrong with what the new run was sent: by the logs of both, and by the mailbox."""
    log = log_of(world, redriven_id(RUN))
    marks = [record for record in log if record.kind is Kind.REDRIVEN]
    if len(marks) != 1 or fold(log, Token()).end is None:
        yield f"the new run has {len(marks)} marks, and has come to no end"
        return
    (mark,) = marks
    due, shared = _due(world, old[mark.slot :])
    took = [one.event_id for one in _taken(log[mark.slot :])]
    over = next((one for one in log[mark.slot :] if one.kind is Kind.RESUMED), None)
    is_complete = over is not None and over.resumption is not None and over.resumption.kind not in {"timeout", "timer"}
    for one in due:
        pending = world.memory._pending.get(run_topic(one.name, redriven_id(RUN)), {})
        is_filled = is_complete or (not one.part and one.arm in {each.arm for each in _taken(log[mark.slot :])})
        if one.event_id not in took and not (is_filled and one.event_id in pending):
            yield f"the failed wait had {one.event_id}, and the new one does not get it"
    for arm in {one.arm for one in due}:  # an older event, which anybody might have had, may fill another arm first
        asked = [one.event_id for one in due if one.arm == arm]
        came = [one for one in took if one in asked]
        if came != [one for one in asked if one in came]:
            yield f"it gets {came}, and the order was {asked}"
    sent = _sent_to(world.memory._events, redriven_id(RUN))
    unread = _sent_to(world.memory._pending, RUN) - {one.event_id for one in _taken(old)}  # it may have one that stays
    if lost := unread - sent:
        yield f"{lost} came for the failed run alone, which did not take it, and the new one does not get it"
    allowed = {one.event_id for one in due} | unread
    if more := (sent | {*took} & {one.event_id for one in _taken(old)} - shared) - allowed:
        yield f"it gets {more} as well, which the failed wait did not have, or anybody has"


def _sent_to(kept: Mapping[Topic, Mapping[str, Event]], run_id: str) -> set[str]:
    """The ids of the program's events for this run alone."""
    topics = [run_topic(name, run_id) for name in (NAME, *TOPICS)]
    return {event_id for topic in topics for event_id in kept.get(topic, {}) if event_id[0] == "e"}


def _taken(records: list[Record]) -> list[Resumption]:
    return [one for record in records if record.kind in _TAKES and (one := record.resumption) and one.kind == "event"]


def _due(world: World, failed: list[Record]) -> tuple[list[Resumption], set[str]]:
    """What the failed wait had of its own: of each document the last. And which events are there for everybody."""
    kept = {event_topic(name, key) for name in world.main.graph.events for key in ("k", "")}
    shared = {event_id for topic in kept for event_id in world.memory._events.get(topic, {})}
    found: dict[tuple[int, str], Resumption] = {}
    for one in _taken(failed):
        if one.event_id not in shared:
            key = one.arm, one.part or one.event_id
            found.pop(key, None)
            found[key] = one
    return list(found.values()), shared
