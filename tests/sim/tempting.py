"""What befalls whoever is at work: an event for the wait that it registers, the end of its run, a copy of its wake."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from stepwell.definition.graph import Json
from stepwell.engine.records import ALONE, Kind
from stepwell.engine.waits.topics import callback_topic
from stepwell.runtime.log.messages import Publish, to_json
from stepwell.runtime.ports import Event, Lane
from tests.sim.actors import Envelope
from tests.sim.noting import records_of
from tests.sim.race_programs import LAST_CALL
from tests.sim.tree import RUN

if TYPE_CHECKING:
    from tests.sim.world import World

_REGISTERING = frozenset({"append", "change_status", "pending_events", "put_waiter"})  # the calls of a new wait
_CALLBACK = callback_topic("").name
_POSTED: Json = {"body": {}}  # what is posted to a callback's URL
MOST_BUSY = 20  # who are in steps that take time, before no further copies come
MOST_REPEATED = 300  # wakes; else a step that kills its worker would never be done with


def tempt(world: World, name: str, args: tuple[Any, ...]) -> None:
    """While a wait is being registered, an event that it wants is sent, so that they race each other."""
    if (
        name == "append"
        and '"waiting"' in args[3]
        and (last := records_of(args, world.blobs)[-1][1]).kind is Kind.WAITING
    ):
        parked = last.parked
        world.wanted = [topic for arm in parked.arms for topic in arm.topics] if parked else []
        if parked and parked.asked_by_step and parked.asked_by_step.then == ALONE:
            world.wanted = []  # its answers come of clients
    if name in _REGISTERING and world.wanted and not world.gone and _is_time(world, name):
        world.tempted += 1
        topic = world.wanted.pop(world.rng.randrange(len(world.wanted)))
        event = Event(
            topic,
            f"t{world.tempted}",
            {"n": world.tempted, "document": f"d{world.tempted % 4}", **(_POSTED if topic.name == _CALLBACK else {})},
            world.now_ms,
            world.now_ms + 10**9,
        )
        after_ms = 1 if world.program.race == "after" else 0
        world.post(Envelope(str(Lane.RESUME), to_json(Publish(event)), world.now_ms + after_ms))
        if world.program.race:
            world.wanted = []  # one event, and no more
        if not after_ms:
            world.urgent.append(world.envelopes[-1])


def _is_time(world: World, name: str) -> bool:
    """Whether the event is sent now: anywhere among these calls, or where the program says."""
    match world.program.race:
        case "":
            return world.rng.random() < world.chances.tempt
        case "before":
            return True  # before the very first of them
        case "after":
            return name == LAST_CALL
        case _:
            return name == LAST_CALL or world.rng.random() < 0.4


def hurry(world: World, name: str, args: tuple[Any, ...]) -> None:
    """While a child is made, or a lock asked for, a client ends the run that does so, which was to come later."""
    maker = ""
    if name == "create_run" and args[0].parent:
        maker = args[0].parent.partition("|")[0]
    elif name == "put_note" and world.current:
        maker = str(world.current.envelope.body.get("run_id", ""))
    if not maker or world.rng.random() >= world.chances.tempt:
        return
    wanted = {"cancel", "terminate"} if maker == RUN else {"cancel child", "terminate child"}
    later = [envelope for envelope in world.envelopes if envelope.body["type"] in wanted and not envelope.deliveries]
    if later:
        envelope = world.rng.choice(later)
        envelope.at_ms = min(envelope.at_ms, world.now_ms)
        envelope.body = {**envelope.body, "run": maker}
        world.urgent.append(envelope)


def repeat(world: World) -> None:
    """While a step runs, a copy of an old wake comes."""
    if world.main.takes_ms and len(world.actors) > MOST_BUSY:
        return  # each copy runs a step for a while, in which more copies come
    if world.chances.double and 1 < len(world.past) < MOST_REPEATED and world.rng.random() < world.chances.tempt:
        old = world.rng.choice(world.past)
        world.post(replace(old, at_ms=world.now_ms, deliveries=0))
        world.urgent.append(world.envelopes[-1])
