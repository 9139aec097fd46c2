"""Between the values of the ports and the items of the table. What has its default value is not written.

A write unit is a kilobyte of the whole item: an item that is updated should stay below one.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Any

from stepwell.aws.protocols import Item
from stepwell.aws.store import keys
from stepwell.engine.records import Topic
from stepwell.engine.stored.formats import KEY, OLDEST
from stepwell.limits import ID_HELD_MS, SECOND_MS
from stepwell.runtime.ports import Event, Waiter
from stepwell.runtime.ports.headers import Header, StatusChange
from stepwell.runtime.stores.answers import opened, status_of
from stepwell.runtime.stores.jsontext import decode, encode

# What separates a run from the next one of its id, on any clock: a run is kept for an hour or more after its end.
NEXT_RUN_MS = ID_HELD_MS // 2
_BESIDE_BYTES = 150  # of a record's item, beside its body
_LIST_BYTES = 3  # of a list, beside its elements, each of which has one byte more
EXPIRES = "expires"  # the table's TTL attribute, in seconds
_TEXTS = (
    "workflow", "version", "fingerprint", "parent", "origin", "waiting_for", "waiting_node", "paused_by",
    "pause_reason", "pause_of", "resumes_as", "failure", "trace",
)  # fmt: skip
_NUMBERS = (
    "rev", "started_ms", "ended_ms", "start_at_ms", "priority", "waiting_since_ms", "waiting_until_ms",
    "changed_ms", "expires_ms", "paused_ms",
)  # fmt: skip
_FLAGS = ("idle", "pinned")  # there only where they are true
_DEFAULTS: Mapping[str, int | None] = {"waiting_until_ms": None, "rev": None}  # of others: 0


def text(value: str) -> dict[str, str]:
    return {"S": value}


def number(value: int) -> dict[str, str]:
    return {"N": str(value)}


def ttl(at_ms: int) -> dict[str, str]:
    """The second after this time."""
    return number(-(-at_ms // SECOND_MS))


def size_of(item: Item) -> int:
    """Bytes of an item as DynamoDB counts them: names and values in UTF-8; numbers at their longest."""
    total = 0
    for name, value in item.items():
        total += len(name.encode())
        for kind, held in value.items():
            if kind in ("S", "N"):
                total += len(held.encode())
            elif kind == "B":
                total += len(held) if isinstance(held, bytes) else len(base64.b64decode(held))  # as the stream has it
            elif kind == "SS":
                total += sum(len(member.encode()) for member in held)
            elif kind == "L":
                total += _LIST_BYTES + sum(1 + size_of({"": member}) for member in held)
    return total


def units_of_bytes(count: int) -> int:
    """Write units of an item with a text of so many bytes, its keys and its other attributes beside it."""
    return -(-(count + _BESIDE_BYTES) // 1_024)


def header_item(header: Header) -> Item:
    """The header without its input."""
    item = keys.header_key(header.run_id)
    item["at"] = text(keys.place(header.created_ms, header.run_id))
    item["status"] = text(header.status.value)
    for name in _TEXTS:
        if value := getattr(header, name):
            item[name] = text(value)
    for name in _NUMBERS:
        value = getattr(header, name)
        if value != _DEFAULTS.get(name, 0):
            item[name] = number(value)
    item.update({name: {"BOOL": True} for name in _FLAGS if getattr(header, name)})
    if header.tags:
        item["tags"] = text(encode(dict(header.tags)))
    if header.expires_ms:
        item[EXPIRES] = ttl(header.expires_ms)
    state = keys.state_of(header.status, header.run_id)
    places = {
        "state": None if state is None else text(state),
        "due": _due(header.due_ms, header.run_id),
        "due_in": text(keys.due_key(header.run_id)) if header.watched else None,
    }
    item.update((name, place) for name, place in places.items() if place is not None)
    return item


def header_of(item: Item, given_input: str) -> Header:
    """The header of an item, with its input as JSON text."""
    created_ms, run_id = keys.created_and_run(item["at"]["S"])
    texts = {name: item[name]["S"] for name in _TEXTS if name in item}
    numbers = {name: int(item[name]["N"]) for name in _NUMBERS if name in item}
    return Header(
        run_id=run_id,
        input=decode(given_input),
        created_ms=created_ms,
        status=status_of(item["status"]["S"]),
        idle="idle" in item,
        pinned="pinned" in item,
        due_ms=keys.created_and_run(item["due"]["S"])[0] if "due" in item else None,
        watched="due_in" in item,
        tags=decode(item["tags"]["S"]) if "tags" in item else {},
        **{"workflow": "", "version": "", **texts},
        **numbers,  # type: ignore[arg-type]  # the names are those of the fields
    )


HELD = "held_until_ms"  # of what is left of a deleted run's header: until when its id is refused


def held_item(run_id: str, held_until_ms: int) -> Item:
    """What takes the place of a deleted run's header. The table deletes it some time after its id is free."""
    return {**keys.header_key(run_id), HELD: number(held_until_ms), EXPIRES: ttl(held_until_ms)}


def held_until(item: Item) -> int:
    return int(item[HELD]["N"])


# A change that is much older than its run comes from the log of an expired run that had this id, and is not erased yet.
# A redriven run keeps records that are older.
_NOT_OLDER = "(#at <= :as_of OR attribute_exists(#origin))"
_TEXTS_OF_PAUSE = ("paused_by", "pause_reason", "pause_of", "resumes_as")
_OF_PAUSE = ("paused_ms", *_TEXTS_OF_PAUSE)


def change_request(change: StatusChange, *, is_held: bool) -> dict[str, Any]:
    """The parts of an UpdateItem that apply the change to a header whose `rev` is behind.

    `is_held`: the header is of a paused run, which the change does not have go on.
    """
    state = keys.state_of(change.status, change.run_id)
    until_ms = change.waiting_until_ms
    values: dict[str, dict[str, str] | None] = {  # None: removed
        "rev": number(change.rev),
        "status": text(change.status.value),
        "changed_ms": number(change.changed_ms),
        "ended_ms": number(change.ended_ms) if change.ended_ms else None,
        "waiting_for": text(change.waiting_for) if change.waiting_for else None,
        "waiting_node": text(change.waiting_node) if change.waiting_node else None,
        "waiting_since_ms": number(change.waiting_since_ms) if change.waiting_since_ms else None,
        "waiting_until_ms": None if until_ms is None else number(until_ms),
        "expires_ms": number(change.expires_ms) if change.expires_ms else None,
        EXPIRES: ttl(change.expires_ms) if change.expires_ms else None,
        "state": None if state is None else text(state),
    }
    if change.failure:  # a run that has ended changes no more
        values["failure"] = text(change.failure)
    if change.started_ms is not None:
        values["started_ms"] = number(change.started_ms)
    pause = ""
    if change.ends_pause:
        values |= dict.fromkeys(_OF_PAUSE)
    elif is_held:
        values["resumes_as"] = values.pop("status")
        pause = " AND attribute_exists(#paused_ms)"
    else:
        pause = " AND attribute_not_exists(#paused_ms)"
    as_of = {"as_of": text(keys.place(change.changed_ms + NEXT_RUN_MS, change.run_id))}
    if change.of_branch:
        return _update_of(values, f"{_NOT_OLDER} AND #rev <= :rev{pause}", **as_of)
    values["due"] = _due(change.due_ms, change.run_id)
    return _update_of(values, f"{_NOT_OLDER} AND #rev < :rev{pause}", **as_of)


def hold_request(seen: Header, new: Header) -> dict[str, Any]:
    """Builds the parts of an UpdateItem that pauses a run, or has it go on."""
    values: dict[str, dict[str, str] | None] = {
        "status": text(new.status.value),
        "changed_ms": number(new.changed_ms),
        "due": _due(new.due_ms, new.run_id),
        **{name: text(value) if (value := getattr(new, name)) else None for name in _TEXTS_OF_PAUSE},
        "paused_ms": number(new.paused_ms) if new.paused_ms else None,
    }
    if seen.paused_ms:
        condition = "#resumes_as = :was AND #paused_ms = :since"
        return _update_of(values, condition, was=text(seen.resumes_as), since=number(seen.paused_ms))
    return _update_of(values, "#status = :was AND attribute_not_exists(#paused_ms)", was=text(seen.status.value))


def is_held_as(item: Item | None, new: Header) -> bool:
    """Tells whether a header is as this very pause, or its end, left it."""
    changed, status = number(new.changed_ms), text(new.status.value)
    return item is not None and item.get("changed_ms") == changed and item.get("status") == status


def watch_request(run_id: str, due_ms: int | None, seen: Header | None) -> dict[str, Any]:
    """Builds the parts of an UpdateItem that puts a run under the sweeper's watch."""
    values = {"due_in": text(keys.due_key(run_id)), "due": _due(due_ms, run_id)}
    if seen is None:
        return _update_of(values, "attribute_exists(#status)")
    rev, was = number(seen.rev), _due(seen.due_ms, run_id)
    if was is None:
        return _update_of(values, "#rev = :rev AND attribute_not_exists(#due)", rev=rev)
    return _update_of(values, "#rev = :rev AND #due = :was", rev=rev, was=was)


def is_watched(item: Item | None, run_id: str, due_ms: int | None) -> bool:
    """Tells whether a header is unchanged since this watch wrote it."""
    return item is not None and "due_in" in item and item.get("due") == _due(due_ms, run_id)


def _due(due_ms: int | None, run_id: str) -> dict[str, str] | None:
    """Returns the run's position in the index `by_due`."""
    return None if due_ms is None else text(keys.place(due_ms, run_id))


def _update_of(values: Mapping[str, dict[str, str] | None], condition: str, **bound: dict[str, str]) -> dict[str, Any]:
    """Builds an UpdateItem that sets these attributes, or removes those that are None."""
    new = {name: value for name, value in values.items() if value is not None}
    sets = ", ".join(f"#{name} = :{name}" for name in new)
    gone = ", ".join(f"#{name}" for name in values if name not in new)
    return {
        "UpdateExpression": f"SET {sets} REMOVE {gone}" if gone else f"SET {sets}",
        "ConditionExpression": condition,
        "ExpressionAttributeNames": {f"#{name}": name for name in (*values, *re.findall(r"#(\w+)", condition))},
        "ExpressionAttributeValues": {f":{name}": value for name, value in {**new, **bound}.items()},
    }


def is_applied(item: Item | None, change: StatusChange) -> bool:
    """Whether a header is as this very change left it."""
    if item is None:
        return False
    expected = {"rev": number(change.rev), "changed_ms": number(change.changed_ms)}
    status = item.get("resumes_as" if is_paused(item) and not change.ends_pause else "status")
    return status == text(change.status.value) and all(item.get(name) == value for name, value in expected.items())


def is_paused(item: Item | None) -> bool:
    """Tells whether this is the header of a paused run."""
    return item is not None and "paused_ms" in item


def event_item(event: Event) -> Item:
    """The event without its payload."""
    item = keys.event_key(event.topic, event.id)
    item["id"] = text(event.id)
    item["at_ms"] = number(event.at_ms)
    item[KEY] = number(event.format)
    item["expires_ms"] = number(event.expires_ms)
    item[EXPIRES] = ttl(event.expires_ms)
    if event.consumed_by:
        item["consumed_by"] = text(event.consumed_by)
    return item


def event_of(topic: Topic, item: Item, payload: str) -> Event:
    return opened(
        Event(
            topic,
            item["id"]["S"],
            payload,
            int(item["at_ms"]["N"]),
            int(item["expires_ms"]["N"]),
            item["consumed_by"]["S"] if "consumed_by" in item else "",
            int(item[KEY]["N"]) if KEY in item else OLDEST,
        )
    )


def waiter_key(waiter: Waiter) -> Item:
    return keys.waiter_key(waiter.topic, waiter.run_id, waiter.token, waiter.slot, waiter.arm)


def waiter_item(waiter: Waiter) -> Item:
    item = waiter_key(waiter)
    item["run_id"] = text(waiter.run_id)
    item["token"] = text(waiter.token)
    for name in ("slot", "since_ms", "arm"):
        item[name] = number(getattr(waiter, name))
    if waiter.match:
        item["match"] = text(waiter.match)
    return item


def waiter_of(topic: Topic, item: Item) -> Waiter:
    numbers = {name: int(item[name]["N"]) for name in ("slot", "since_ms", "arm")}
    match = item["match"]["S"] if "match" in item else ""
    return Waiter(topic, item["run_id"]["S"], item["token"]["S"], match=match, **numbers)
