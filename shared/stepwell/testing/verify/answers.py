"""What the outside does to a run that is verified: approvals, rejections, events and callbacks, in order.

- approve: {by: ana, data: {limit: 500}}
- event: {name: order.paid, key: A-1, payload: {amount: 80}}
  after: 2h                                                    # after the start; else when the run waits
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stepwell.definition.durations import parse_duration
from stepwell.definition.graph import Json
from stepwell.engine.codec import decode_record
from stepwell.engine.records import Resumption
from stepwell.engine.waits.topics import CALLBACK_EVENT
from stepwell.errors import UserError
from stepwell.local.replaying import Export

_KINDS = {
    "approve": frozenset({"by", "data", "wait"}),
    "reject": frozenset({"by", "reason", "wait"}),
    "event": frozenset({"name", "key", "payload"}),
    "callback": frozenset({"result", "error", "message"}),
}


@dataclass(frozen=True, slots=True)
class Answer:
    """One thing that the outside does. `after_ms`: so long after the start; None: when the run next waits."""

    kind: str
    given: dict[str, Any] = field(default_factory=dict)
    after_ms: int | None = None

    def get(self, name: str) -> Json:
        """Returns a part of what is given; of an absent name the empty text, or null for data."""
        return self.given.get(name, None if name in {"data", "payload", "result"} else "")


def read_answers(path: Path) -> tuple[Answer, ...]:
    """Reads a file of answers. Raises UserError."""
    from stepwell.definition.loader import load_document  # noqa: PLC0415 - YAML takes 50 ms

    try:
        found = load_document(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {path}: {error}", code="unreadable") from error
    if not isinstance(found.data, list):
        raise _bad(str(path), "it is no list")
    return parse_answers(found.data, str(path))


def answers_of(export: Export) -> tuple[Answer, ...]:
    """Returns the approvals and events that a run had, in the order in which it took them."""
    records = [decode_record(body) for bodies in export.logs.values() for body in bodies]
    took = sorted((one for one in records if one.resumption is not None), key=lambda one: one.at_ms)
    return tuple(answer for one in took if one.resumption and (answer := _taken(one.resumption)) is not None)


def _taken(came: Resumption) -> Answer | None:
    payload = came.payload if isinstance(came.payload, dict) else {}
    match came.kind:
        case "approved":
            return Answer("approve", {"by": came.by, "data": payload.get("data")})
        case "rejected":
            return Answer("reject", {"by": came.by, "reason": payload.get("reason", "")})
        case "event" if came.name != CALLBACK_EVENT:
            return Answer("event", {"name": came.name, "payload": came.payload, "to_run": True})
        case "event":
            error = payload.get("error") or {}
            given = {"error": error.get("type", ""), "message": error.get("message", "")}
            return Answer("callback", {"result": payload.get("body"), **given})
    return None


def parse_answers(entries: Sequence[Json | Answer], name: str) -> tuple[Answer, ...]:
    """Parses those answers that are JSON. Raises UserError."""
    return tuple(
        entry if isinstance(entry, Answer) else _answer(entry, f"{name}[{number}]")
        for number, entry in enumerate(entries)
    )


def _answer(entry: Json, place: str) -> Answer:
    kinds = entry.keys() & _KINDS.keys() if isinstance(entry, dict) else set()
    if len(kinds) != 1 or not entry.keys() <= {*kinds, "after"}:
        raise _bad(place, f"an answer has one of {', '.join(_KINDS)}, and perhaps `after`")
    (kind,) = kinds
    given = {} if entry[kind] is None else entry[kind]
    if not isinstance(given, dict) or not given.keys() <= _KINDS[kind]:
        raise _bad(place, f"`{kind}` takes {', '.join(sorted(_KINDS[kind]))}")
    if kind == "event" and not given.get("name"):
        raise _bad(place, "an event has a name")
    after = entry.get("after")
    return Answer(kind, given, None if after is None else parse_duration(after))


def _bad(place: str, why: str) -> UserError:
    hint = 'for example [{"approve": {"by": "ana"}}, {"event": {"name": "paid"}, "after": "2h"}]'
    return UserError(f"{place}: {why}", code="bad_answers", hint=hint)
