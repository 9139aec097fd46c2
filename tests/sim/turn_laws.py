"""Law 11: events that wait to be taken are taken in the order in which they came, across names."""

from __future__ import annotations

import json
from collections.abc import Iterator

from stepwell.engine.records import Kind, Record
from stepwell.engine.token import Token
from stepwell.engine.waits.code import DEPLOYED
from stepwell.limits import MINUTE_MS
from stepwell.runtime.ports import Event
from tests.sim.fork_laws import Family
from tests.sim.part_laws import is_still_wanted, matches
from tests.sim.seen import Taking
from tests.sim.world import World


def law_11_turns(world: World, logs: dict[str, list[Record]]) -> Iterator[str]:
    """Of one run: no older one was pending that the same wait would have taken."""
    family = Family(world, logs)
    for taking in world.seen.takings:
        is_part = logs[taking.token][taking.slot].kind is Kind.RECEIVED  # they are all taken, in whatever order
        if is_part or taking.topic.name == DEPLOYED:  # deploys are alike
            continue
        token, taken = family.token(taking.token, taking.slot), taking.pending[taking.topic][taking.event_id]
        for other in _wanted(world, token, taking):
            is_older = (other.at_ms, other.id) < (taken.at_ms, taken.id)
            if is_older and world.stored[other.topic, other.id] < taking.known:
                where, first = f"{taking.token} slot {taking.slot}", f"{other.id} of {other.topic}"
                yield f"law 11: {where} took {taken.id} of {taken.topic}, and {first} had come before"


def _wanted(world: World, token: Token, taking: Taking) -> Iterator[Event]:
    """The pending events that the wait would take; without those that are about to expire."""
    for index, arm in enumerate(token.parked.arms if token.parked else ()):
        for topic in arm.topics:
            for event in taking.pending.get(topic, {}).values():
                document = json.loads(event.payload).get("document", "")
                is_live = event.expires_ms > taking.at_ms + MINUTE_MS
                if is_live and matches(arm, event) and is_still_wanted(world, token, index, event, document):
                    yield event
