"""The clients of a schedule: what they ask of the run, and what they are told."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from stepwell.engine.records import ROOT
from stepwell.engine.table import Phase
from stepwell.engine.waits import event_topic, run_topic
from stepwell.errors import NewerFormat, NotFound, PortError, UserError
from stepwell.limits import OUTPUT_PENDING, YEAR_MS
from stepwell.runtime.calls.callbacks import wait_callback
from stepwell.runtime.calls.links import CallbackLink
from stepwell.runtime.log.messages import Publish, to_json
from stepwell.runtime.ports import Event, Lane
from stepwell.runtime.starts.starting import Signal, Start
from tests.sim.actors import START_MS, Envelope
from tests.sim.answered_programs import failure_of, note_answer
from tests.sim.backlog_programs import STILL_MS
from tests.sim.gather_programs import GATHERS
from tests.sim.programs import Program
from tests.sim.seen import Read, Told
from tests.sim.tree import RUN
from tests.sim.world import World

ASKING = frozenset({"signal", "update", "answer", "query", "delegate"})  # what the laws want to hear the answer of
_ANSWERING = frozenset({"approve", "reject"})
_BACK = {"pause": "unpause", "stop": "resume"}


def _start_of(program: Program, event: Signal | None = None) -> Start:
    start_at_ms = START_MS + program.start_after_ms if program.start_after_ms else 0
    return Start("sim", dict(program.input), RUN, create_only=program.idle, start_at_ms=start_at_ms, event=event)


def records_of(world: World, run_id: str) -> int:
    """How many records the run's own log has."""
    log = world.memory._logs.get((run_id, ROOT))
    return sum(json.loads(saved.body).get("count", 1) for saved in log.records.values()) if log else 0


def addressed(world: World, body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Which run, and which of its waits, a client means: it looks once."""
    if body["type"].endswith(" child") and "run" not in body:
        found = [run_id for run_id in world.memory._runs if run_id != RUN]
        body = {**body, "run": world.rng.choice(found) if found else ""}
    if body["type"] in {"approve", "reject"} and world.program.voters and "who" not in body:
        body = {**body, "who": world.rng.choice(world.program.voters)}
    if body["type"] == "delegate" and "id" not in body:
        body = {**body, "name": world.rng.choice(world.program.voters), "id": world.rng.choice(world.program.voters)}
    if body["type"] in {"beat", "post"} and "link" not in body:
        root = world.logs.look().tokens.get(ROOT)
        body = {**body, "link": (root and wait_callback(RUN, root)) or f"{RUN}|{ROOT}|w1"}
    if body["type"].startswith(("approve", "reject")) and "wait" not in body:
        run_id = body.get("run", RUN)
        body = {**body, "wait": _one_that_asks(world.of(run_id)) if run_id else ""}
    return body


def _link(body: Mapping[str, Any]) -> CallbackLink:
    return CallbackLink(body["link"], START_MS + YEAR_MS)


def _one_that_asks(world: World) -> str:
    """A branch that waits for an approval; "" for the run."""
    tokens = world.logs.look().tokens.values()
    asking = [token.id for token in tokens if token.id != ROOT and token.phase is Phase.WAITING_FOR_APPROVAL]
    return world.rng.choice(asking) if asking else ""


def _is_undone(world: World) -> bool:
    root = world.logs.look().tokens.get(ROOT)
    return root is not None and root.phase in {Phase.COMPENSATING, Phase.WAITING_TO_COMPENSATE}


async def _read(world: World, reader: str, run_id: str) -> str:
    """Reads live output on from where this reader was: all that is there."""
    reads, known = world.seen_of[run_id].reads, len(world.stored)
    cursor = next((one.pieces[-1].cursor for one in reversed(reads) if one.reader == reader and one.pieces), "")
    pieces = await world.parts.service.output(run_id, cursor, OUTPUT_PENDING)
    reads.append(Read(reader, pieces, world.now_ms, known))  # now: it may have stalled first
    return f"{len(pieces)} pieces"


def post_clients(world: World) -> None:
    """Posts the calls and events of the program."""
    if not any(ask["type"] == "signal" for ask in world.program.asks):  # else they start it
        world.post(Envelope("client", {"type": "start"}, START_MS))
    world.awaited = [ask for ask in world.program.asks if "phase" in ask]
    for ask in (one for one in world.program.asks if "phase" not in one):
        world.post(Envelope("client", ask, START_MS + ask["after_s"] * 1_000))
    for operation, after_seconds in world.program.calls:
        world.post(Envelope("client", {"type": operation}, START_MS + after_seconds * 1_000))
    for name, event_id, n in world.program.events:
        topic = (
            run_topic(name, RUN) if world.rng.random() < 0.3 else event_topic(name, world.rng.choice(["k", "k", ""]))
        )
        at_ms = START_MS + world.rng.choice([0, 0, 30_000, 4_000_000])
        event = Event(topic, event_id, {"n": n, "document": f"d{n}"}, at_ms, at_ms + 600_000_000)
        for _ in range(2 if world.program.repeats else 1):
            world.post(Envelope(str(Lane.RESUME), to_json(Publish(event)), at_ms))


async def call(world: World, operation: str, body: Mapping[str, Any], run_id: str = RUN) -> None:
    """A client's call: an answer that says no is an answer."""
    service, wait = world.parts.service, str(body.get("wait", ""))
    calls: dict[str, Callable[[], Coroutine[Any, Any, Any]]] = {
        "start": lambda: service.start(_start_of(world.program)),
        "gather": lambda: service.start(Start(GATHERS, {"key": body["name"] or None}, key=body["id"])),
        "begin": lambda: service.start_idle(run_id, "kim"),
        "approve": lambda: service.approve(run_id, {"ok": True}, body.get("who", "ana"), wait),
        "reject": lambda: service.reject(run_id, "no", body.get("who", "leo"), wait),
        "cancel": lambda: service.cancel(run_id, "enough", "kim"),
        "terminate": lambda: service.terminate(run_id, "now", "kim"),
        "pause": lambda: service.pause(run_id, "wait", "kim"),
        "unpause": lambda: service.unpause(run_id),
        "stop": lambda: world.parts.workflow_pauses.pause("*", "wait", "kim"),
        "resume": lambda: world.parts.workflow_pauses.unpause("*"),
        "sweep": lambda: world.parts.sweeper.sweep(STILL_MS),
        "redrive": lambda: service.redrive(run_id, who="kim"),
        "signal": lambda: service.start(_start_of(world.program, Signal(body["name"], body["input"], body["id"]))),
        "update": lambda: service.update(run_id, body["name"], body["input"], body["id"]),
        "answer": lambda: service.update_answer(run_id, body["id"]),
        "query": lambda: service.query(run_id, body["name"]),
        "read": lambda: _read(world, body["name"], run_id),
        "delegate": lambda: service.delegate(run_id, body["name"], body["id"], wait),
        "beat": lambda: service.callbacks.beat(_link(body)),
        "erase": lambda: world.parts.eraser.delete(run_id, force=True, who="kim"),
        "again": lambda: service.start(Start("sim", dict(world.program.input), run_id)),
        "post": lambda: service.callbacks.complete(_link(body), {"n": body.get("n", 1)}),
        "fail": lambda: service.callbacks.fail(_link(body), failure_of(body)),
    }
    was_undone, before = _is_undone(world.of(run_id)), records_of(world, run_id)
    try:
        answer = await calls[operation]()
    except NotFound as refusal:
        if operation in {"begin", "update"} and run_id not in world.gone:
            raise PortError("not created yet: try again") from refusal
        answer = refusal.code
    except UserError as refusal:
        answer = refusal.code
    except NewerFormat as newer:
        raise PortError("newer code is needed: try again") from newer
    world.say(f"        {operation}: {answer if isinstance(answer, str | bool) else 'done'}")
    world.seen.answered.append(f"{operation}: {answer}")
    note_answer(world, run_id, operation, body, answer)
    if operation in _BACK and not isinstance(answer, str) and "held_s" in body:
        back = {"type": body["type"].replace(operation, _BACK[operation]), "run": run_id}
        world.post(Envelope("client", back, world.now_ms + 1_000 * body["held_s"]))
    if operation in ASKING or (operation in _ANSWERING and "id" in body):
        told = Told(operation, body["name"], body["id"], body.get("input"), answer, before, records_of(world, run_id))
        world.seen_of[run_id].told.append(told)
    seen = world.seen_of[run_id]
    if was_undone and _is_undone(world.of(run_id)):
        seen.while_undone.append((operation, str(answer)))
    if operation in {"cancel", "terminate"} and answer is True and seen.cancelled_at_slot is None:
        seen.cancelled_at_slot = records_of(world, run_id) - 1 if (run_id, ROOT) in world.memory._logs else None
        seen.cancelled_after = world.written
