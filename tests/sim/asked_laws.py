"""The laws of callers: an update is made once or refused, its answers agree, and a query tells what the log has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from stepwell.engine.records import UPDATE, Record
from stepwell.engine.waits import run_topic
from stepwell.runtime.calls.updates import Answered, topic_of
from tests.sim.asked_code import is_refused
from tests.sim.seen import Told
from tests.sim.world import World

_REFUSED = "stepwell.refused"


def laws_of_callers(world: World, log: Sequence[Record], shown: Mapping[int, Any]) -> Iterator[str]:
    """Of one run. `shown`: what a query is answered after the record of each slot, as far as that is known."""
    made = Counter(one.resumption.event_id for one in log if one.resumption and one.resumption.kind == UPDATE)
    yield from (f"callers: update {update} was made {count} times" for update, count in made.items() if count > 1)
    answers = dict(_answers(log))
    for told in world.seen.told:
        match told.what:
            case "answer":
                yield from _of_answer(told, made, answers)
            case "query":
                yield from _of_query(told, shown)
            case "signal":
                yield from _of_signal(world, told)


def laws_of_quiet_callers(world: World) -> Iterator[str]:
    """When nothing is due: each update that was taken on is made, refused, or has a message under way."""
    root = world.logs.look().tokens.get("0")
    if root is None or root.ended:
        return
    under_way = {one.body.get("event_id") for one in world.envelopes if one.body.get("type") == "update"}
    refused = world.memory._events.get(run_topic(_REFUSED, world.run_id), {})
    for event in world.memory._events.get(topic_of(world.run_id), {}).values():
        if not event.consumed_by and event.id not in refused and event.id not in under_way:
            yield f"callers: update {event.id} is pending, and nothing will make it"


def _answers(log: Sequence[Record]) -> Iterator[tuple[str, Any]]:
    for record in log:
        came = record.resumption
        if came is not None and came.kind == UPDATE and came.has_answer:
            yield came.event_id, (came.payload.get("output"), came.payload.get("error"))
        for update, answer in (record.answers or {}).items():
            yield update, (answer.get("output"), answer.get("error"))


def _of_answer(told: Told, made: Mapping[str, int], answers: Mapping[str, Any]) -> Iterator[str]:
    if isinstance(told.answer, Answered):
        found = told.answer.output, told.answer.error
        if found != answers.get(told.id):
            yield f"callers: {told.id} was answered {found}, and the log has {answers.get(told.id)}"
    elif told.answer == "update_refused" and (told.id in made or not is_refused(told.name, told.given)):
        yield f"callers: {told.id} was refused, and is {'made' if told.id in made else 'good'}"


def _of_query(told: Told, shown: Mapping[int, Any]) -> Iterator[str]:
    if not isinstance(told.answer, list):
        return
    slots = range(told.before - 1, told.after)
    if not set(slots) <= shown.keys():  # something ended the run from outside: what it would have shown is not known
        return
    if told.answer not in [shown[slot] for slot in slots]:
        yield f"callers: a query was answered {told.answer}; after {told.before} records it is {shown[slots[0]]}"


def _of_signal(world: World, told: Told) -> Iterator[str]:
    if isinstance(told.answer, str):  # a refusal
        return
    if told.id not in world.memory._events.get(run_topic(told.name, world.run_id), {}):
        yield f"callers: event {told.id} was taken with a start, and the run never had it"
