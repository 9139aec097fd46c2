"""What the outside does to a run that is verified: approvals, rejections, events, updates and callbacks, in order.

- approve: {by: ana, data: {limit: 500}}
- delegate: {by: leo, to: bea}
- event: {name: order.paid, key: A-1, payload: {amount: 80}}
  after: 2h                                                    # after the start; else when the run waits
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stepwell.definition.durations import parse_duration
from stepwell.definition.graph import Json
from stepwell.engine.records import ROOT, Parked, Record, Resumption
from stepwell.engine.stored.codec import decode_record
from stepwell.engine.waits.approval import asks_several
from stepwell.engine.waits.topics import CALLBACK_EVENT
from stepwell.errors import UserError
from stepwell.local.replaying import Export

_KINDS = {
    "approve": frozenset({"by", "data", "wait"}),
    "reject": frozenset({"by", "reason", "wait"}),
    "delegate": frozenset({"by", "to", "wait"}),
    "event": frozenset({"name", "key", "payload"}),
    "update": frozenset({"name", "input"}),
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
        return self.given.get(name, None if name in {"data", "payload", "input", "result"} else "")


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
    """Returns the approvals, delegations, events and updates that a run had, in the order in which it took them."""
    took = [one for token, bodies in export.logs.items() for one in _took(token, map(decode_record, bodies))]
    return tuple(answer for _, answer in sorted(took, key=lambda one: one[0]))


def _took(token: str, records: Iterable[Record]) -> Iterator[tuple[tuple[int, ...], Answer]]:
    """Yields what a token took, each with its time and its place: branches come before what follows their fork."""
    parked: Parked | None = None
    above = [int(number) for part in token.split("/")[1:] for number in part.split(".")]
    for record in records:
        parked = record.parked or parked
        came = record.resumption
        answer = None if came is None else _taken(came, _place(token, record.node, came, parked))
        if answer is not None:
            yield (record.at_ms, *above, record.slot), answer


def _place(token: str, node: str, came: Resumption, parked: Parked | None) -> dict[str, str]:
    """Returns where an approval was answered: in the run itself, or in a branch by its node and its id."""
    is_of_all = came.kind == "delegated" and "approval" not in came.payload
    name = "" if is_of_all else named_arm(parked, came.arm)
    return {"wait": name} if token == ROOT else {"wait": node + name, "branch": token + name}


def named_arm(parked: Parked | None, arm: int) -> str:
    """Returns what names one of several approvals of a wait, behind the place of the wait."""
    return f"/{parked.arms[arm].name}" if parked is not None and asks_several(parked) else ""


def _taken(came: Resumption, place: Mapping[str, str]) -> Answer | None:
    payload = came.payload if isinstance(came.payload, dict) else {}
    match came.kind:
        case "approved":
            return Answer("approve", {"by": came.by, "data": payload.get("data"), **place})
        case "rejected":
            return Answer("reject", {"by": came.by, "reason": payload.get("reason", ""), **place})
        case "delegated":
            return Answer("delegate", {"by": came.by, "to": payload["to"], **place})
        case "event" if came.name != CALLBACK_EVENT:
            return Answer("event", {"name": came.name, "payload": came.payload, "to_run": True})
        case "event":
            error = payload.get("error") or {}
            given = {"error": error.get("type", ""), "message": error.get("message", "")}
            return Answer("callback", {"result": payload.get("body"), **given})
        case "update":
            return Answer("update", {"name": came.name, "input": payload.get("input")})
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
    if kind in ("event", "update") and not given.get("name"):
        raise _bad(place, f"an {kind} has a name")
    if kind == "delegate" and not (given.get("by") and given.get("to")):
        raise _bad(place, "a delegation says who delegates, `by`, and to whom, `to`")
    after = entry.get("after")
    return Answer(kind, given, None if after is None else parse_duration(after))


def _bad(place: str, why: str) -> UserError:
    hint = 'for example [{"approve": {"by": "ana"}}, {"event": {"name": "paid"}, "after": "2h"}]'
    return UserError(f"{place}: {why}", code="bad_answers", hint=hint)
