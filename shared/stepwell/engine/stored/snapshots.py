"""Converts tokens to JSON and back: what a snapshot holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from stepwell.definition.graph import Json
from stepwell.engine.records import Failure, Place, Resumption, Status
from stepwell.engine.stored import codec, formats
from stepwell.engine.stored.codec import (
    called_of,
    decoded,
    finished_of,
    next_json,
    next_of,
    number_of,
    number_of_next,
    parked_json,
    parked_of,
    record_json,
    record_of,
)
from stepwell.engine.stored.field_json import build, build_or_none, plain
from stepwell.engine.table import Phase
from stepwell.engine.token import Aside, Begun, Cleaning, Gathered, Locks, Outlook, Permit, StepView, Token, Undoing


def encode_token(token: Token) -> str:
    """Encodes a snapshot: the fold with its last record, without the data that a branch gets from its parent."""
    out = plain(token, skip=_APART)
    out["last"] = record_json(token.last) if token.last else None
    for name, part_to_json in _PARTS.items():
        if (part := getattr(token, name)) is not None:
            out[name] = part_to_json(part)
    for name, parts_to_json in _COLLECTIONS.items():
        if parts := getattr(token, name):
            out[name] = parts_to_json(parts)
    return codec.encode_json(out | {formats.KEY: _number_of(token), "fold": formats.FOLD})


def _number_of(token: Token) -> int:
    """Returns the number of the format: that of the newest thing in it."""
    of_last = number_of(token.last) if token.last else 0
    of_share = formats.FREEING if token.share is not None else 0
    of_finished = formats.FINISHING if token.finished else 0
    of_wait = number_of_next(token.parked.asked_by_step) if token.parked else 0
    return max(number_of_next(token.fork), of_last, of_share, of_finished, of_wait)


def decode_token(body: str) -> Token:
    """Decodes the token of a snapshot of any fold. Raises EngineFault for a broken snapshot."""
    return decoded("snapshot", body, _token_from_json)


def decode_snapshot(body: str) -> Token | None:
    """Decodes a snapshot; None if another fold or newer code made it, so the log must be folded again."""
    return decoded("snapshot", body, _token_of_our_fold)


def _token_of_our_fold(raw: Mapping[str, Json]) -> Token | None:
    is_newer = raw.get(formats.KEY, formats.OLDEST) > formats.NEWEST
    return None if is_newer or raw.get("fold", formats.OLDEST) != formats.FOLD else _token_from_json(raw)


def _token_from_json(raw: Mapping[str, Json]) -> Token:
    last, end, fork = raw.get("last"), raw.get("end"), raw.get("fork")
    return build(
        Token,
        raw,
        phase=Phase(raw.get("phase", Phase.INITIALIZING)),
        last=record_of(last) if last else None,
        steps={name: _view_from_json(view) for name, view in raw.get("steps", {}).items()},
        end=next_of(end) if end else None,
        fork=next_of(fork) if fork else None,
        error=build_or_none(Failure, raw.get("error")),
        resumption=build_or_none(Resumption, raw.get("resumption")),
        parked=parked_of(raw["parked"]) if raw.get("parked") else None,
        received=tuple(build(Resumption, one) for one in raw.get("received", ())),
        seen={topic: tuple(events) for topic, events in raw.get("seen", {}).items()},
        cleaning=build(Cleaning, raw["cleaning"], status=Status(raw["cleaning"]["status"]))
        if raw.get("cleaning")
        else None,
        undoing=_undoing_from_json(raw["undoing"]) if raw.get("undoing") else None,
        locks=_locks_from_json(raw["locks"]) if raw.get("locks") else None,
        released=tuple(_locks_from_json(one) for one in raw.get("released", ())),
        permit=build_or_none(Permit, raw.get("permit")),
        share=build_or_none(Permit, raw.get("share")),
        gathered=_gathered_from_json(raw["gathered"]) if raw.get("gathered") else None,
        returned=tuple(build(Permit, one) for one in raw.get("returned", ())),
        aside=_aside_from_json(raw["aside"]) if raw.get("aside") else None,
        tasks={int(slot): _begun_from_json(one) for slot, one in raw.get("tasks", {}).items()},
        dropped=_places(raw.get("dropped", ())),
        finished={task: finished_of(found) for task, found in raw.get("finished", {}).items()},
    )


def _begun_from_json(raw: Mapping[str, Json]) -> Begun:
    waits = {int(index): build(Outlook, one) for index, one in raw.get("waits", {}).items()}
    return build(Begun, raw, open=tuple(raw.get("open", ())), cancelled=_places(raw.get("cancelled", ())), waits=waits)


def _begun_to_json(begun: Begun) -> dict[str, Json]:
    out = plain(begun, skip=("waits",))
    return out | {"waits": {str(index): plain(one) for index, one in begun.waits.items()}} if begun.waits else out


def _places(raw: Sequence[Sequence[int]]) -> tuple[Place, ...]:
    return tuple((slot, index) for slot, index in raw)


def _aside_to_json(aside: Aside) -> dict[str, Json]:
    out = plain(aside, skip=("last", "parked", "resumption", "received"))
    out |= {"last": record_json(aside.last), "received": [plain(one) for one in aside.received]}
    out |= {"parked": parked_json(aside.parked)} if aside.parked else {}
    return out | ({"resumption": plain(aside.resumption)} if aside.resumption else {})


def _aside_from_json(raw: Mapping[str, Json]) -> Aside:
    return build(
        Aside,
        raw,
        last=record_of(raw["last"]),
        parked=parked_of(raw["parked"]) if raw.get("parked") else None,
        resumption=build_or_none(Resumption, raw.get("resumption")),
        received=tuple(build(Resumption, one) for one in raw["received"]),
    )


def _locks_from_json(raw: Mapping[str, Json]) -> Locks:
    return build(Locks, raw, names=tuple(raw["names"]))


def _gathered_from_json(raw: Mapping[str, Json]) -> Gathered:
    return build(Gathered, raw, given=tuple(raw["given"]))


def _undoing_to_json(undoing: Undoing) -> dict[str, Json]:
    out = plain(undoing, skip=("error",))
    return {**out, "error": plain(undoing.error)} if undoing.error else out


def _undoing_from_json(raw: Mapping[str, Json]) -> Undoing:
    undone = tuple(raw.get("undone", ()))
    return build(
        Undoing, raw, status=Status(raw["status"]), error=build_or_none(Failure, raw.get("error")), undone=undone
    )


def _view_to_json(view: StepView) -> dict[str, Json]:
    out = plain(view, skip=("error", "children"))
    if view.error:
        out["error"] = plain(view.error)
    if view.children:
        out["children"] = [plain(one) for one in view.children]
    return out


def _view_from_json(raw: Mapping[str, Json]) -> StepView:
    return build(StepView, raw, error=build_or_none(Failure, raw.get("error")), children=called_of(raw))


_PARTS: dict[str, Callable[[Any], Json]] = {  # of the fields that may be None
    **dict.fromkeys(("error", "resumption", "cleaning", "locks", "permit", "share", "gathered"), plain),
    **dict.fromkeys(("end", "fork"), next_json),
    "parked": parked_json,
    "undoing": _undoing_to_json,
    "aside": _aside_to_json,
}
_COLLECTIONS: dict[str, Callable[[Any], Json]] = {  # of those that may be empty
    "steps": lambda steps: {name: _view_to_json(view) for name, view in steps.items()},
    **dict.fromkeys(("received", "released", "returned"), lambda parts: [plain(one) for one in parts]),
    "finished": lambda finished: {task: [plain(one) for one in found] for task, found in finished.items()},
    "tasks": lambda tasks: {str(slot): _begun_to_json(one) for slot, one in tasks.items()},
}
_APART = ("last", "branch", *_PARTS, *_COLLECTIONS)
