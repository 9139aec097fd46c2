"""Converts records and tokens to JSON and back: compact, exact, and tolerant of fields that a later version adds."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from stepwell.definition.graph import Json
from stepwell.engine import formats
from stepwell.engine.field_json import build, build_or_none, build_whole, known_fields, plain, shape_of
from stepwell.engine.jsons import fast_encoder, read
from stepwell.engine.records import (
    Arm,
    Called,
    CleanUp,
    Compensate,
    End,
    Failure,
    Fork,
    Goto,
    Group,
    Kind,
    Next,
    Parked,
    Pause,
    Place,
    Record,
    Resumption,
    RetryAt,
    Status,
    Tally,
    Topic,
)
from stepwell.engine.table import Phase
from stepwell.engine.throttles import OF_SHARES
from stepwell.engine.token import Aside, Begun, Cleaning, Gathered, Locks, Outlook, Permit, StepView, Token, Undoing

T = TypeVar("T")

_encode = fast_encoder(
    json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False, check_circular=False)
)


def encode_record(record: Record, *, is_gathered: bool = False) -> str:
    """Encodes a record as one line of JSON with the format's number; default values are left out.

    `is_gathered`: of a branch that began in a lane, which only newer code finds.
    """
    number = max(_number_of(record), formats.GATHERED if is_gathered else 0)
    return _encode(_record_to_json(record) | {formats.KEY: number})


def record_json(record: Record) -> dict[str, Json]:
    """Returns a record as JSON without a format's number, for whatever holds several."""
    return _record_to_json(record)


def record_of(raw: Mapping[str, Json]) -> Record:
    """The inverse of `record_json`, which takes what it is given apart."""
    return _record_from_json(raw)


def decode_record(body: str) -> Record:
    """Decodes a record. Raises NewerFormat for a record of newer code, EngineFault for a broken one."""
    return _decoded("record", body, _checked_record)


def _checked_record(raw: dict[str, Json]) -> Record:
    formats.check_format(raw.pop(formats.KEY, formats.OLDEST), "record", formats.NEWEST)
    return _record_from_json(raw)


def _decoded(what: str, body: str, build: Callable[[dict[str, Json]], T]) -> T:
    try:
        return build(read(body))
    except formats.BROKEN as error:
        raise formats.unreadable(what, error) from error


def encode_token(token: Token) -> str:
    """Encodes a snapshot: the fold with its last record, without the data that a branch gets from its parent."""
    out = plain(
        token,
        skip=(
            "last",
            "steps",
            "end",
            "error",
            "parked",
            "resumption",
            "fork",
            "branch",
            "undoing",
            "received",
            "cleaning",
            "locks",
            "released",
            "permit",
            "share",
            "gathered",
            "returned",
            "aside",
            "tasks",
        ),
    )
    out["last"] = _record_to_json(token.last) if token.last else None
    out["steps"] = {name: _view_to_json(view) for name, view in token.steps.items()}
    for name in ("end", "fork"):
        if (following := getattr(token, name)) is not None:
            out[name] = _next_to_json(following)
    for name in ("error", "resumption", "cleaning", "locks", "permit", "share", "gathered"):
        if (part := getattr(token, name)) is not None:
            out[name] = plain(part)
    for name in ("received", "released", "returned"):
        if parts := getattr(token, name):
            out[name] = [plain(one) for one in parts]
    for name, part_to_json in _PARTS.items():
        if (part := getattr(token, name)) is not None:
            out[name] = part_to_json(part)
    if token.tasks:
        out["tasks"] = {str(slot): _begun_to_json(one) for slot, one in token.tasks.items()}
    of_share = formats.FREEING if token.share is not None else 0
    number = max(_number_of_next(token.fork), _number_of(token.last) if token.last else 0, of_share)
    return _encode(out | {formats.KEY: number, "fold": formats.FOLD})


def _number_of(record: Record) -> int:
    """Returns the number of the format: code that knows nothing of an output elsewhere must not read it as none.

    Nor must code that knows no shares let a run go on that has none.
    """
    if record.rules and not OF_SHARES.isdisjoint(record.rules):
        return formats.FREEING
    return max(_number_of_next(record.next), formats.REFERRING if record.output_at >= 0 else 0)


def _number_of_next(following: Next | None) -> int:
    """The same of what follows: code that knows no lanes must not read a fork that has some."""
    is_gathered = isinstance(following, Fork) and following.lane
    return max(formats.FORMAT, formats.GATHERED) if is_gathered else formats.FORMAT


def decode_token(body: str) -> Token:
    """Decodes the token of a snapshot of any fold. Raises EngineFault for a broken snapshot."""
    return _decoded("snapshot", body, _token_from_json)


def decode_snapshot(body: str) -> Token | None:
    """Decodes a snapshot; None if another fold or newer code made it, so the log must be folded again."""
    return _decoded("snapshot", body, _token_of_our_fold)


def _token_of_our_fold(raw: Mapping[str, Json]) -> Token | None:
    is_newer = raw.get(formats.KEY, formats.OLDEST) > formats.NEWEST
    return None if is_newer or raw.get("fold", formats.OLDEST) != formats.FOLD else _token_from_json(raw)


def _token_from_json(raw: Mapping[str, Json]) -> Token:
    last, end, fork = raw.get("last"), raw.get("end"), raw.get("fork")
    return build(
        Token,
        raw,
        phase=Phase(raw.get("phase", Phase.INITIALIZING)),
        last=_record_from_json(last) if last else None,
        steps={name: _view_from_json(view) for name, view in raw.get("steps", {}).items()},
        end=_next_from_json(end) if end else None,
        fork=_next_from_json(fork) if fork else None,
        error=build_or_none(Failure, raw.get("error")),
        resumption=build_or_none(Resumption, raw.get("resumption")),
        parked=_parked_from_json(raw["parked"]) if raw.get("parked") else None,
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
    out |= {"last": _record_to_json(aside.last), "received": [plain(one) for one in aside.received]}
    out |= {"parked": _parked_to_json(aside.parked)} if aside.parked else {}
    return out | ({"resumption": plain(aside.resumption)} if aside.resumption else {})


def _aside_from_json(raw: Mapping[str, Json]) -> Aside:
    return build(
        Aside,
        raw,
        last=_record_from_json(raw["last"]),
        parked=_parked_from_json(raw["parked"]) if raw.get("parked") else None,
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


def failure_to_json(failure: Failure | None) -> dict[str, Json] | None:
    return None if failure is None else plain(failure, skip=("raised",))


def told_failure(failure: Failure | None) -> dict[str, Json] | None:
    """What expressions, parents and subscribers get of a failure: all but the code's own lines."""
    return None if failure is None else plain(failure, skip=("traceback", "retry_after_ms", "raised"))


def _record_to_json(record: Record) -> dict[str, Json]:
    out = plain(record, skip=("error", "next", "parked", "resumption", "tally", "evaluator", "reopens")) | _said(record)
    if record.output_at >= 0:
        out.pop("output", None)
    if record.error:
        out["error"] = plain(record.error)
    if record.next:
        out["next"] = _next_to_json(record.next)
    if record.parked:
        out["parked"] = _parked_to_json(record.parked)
    if record.resumption:
        out["resumption"] = plain(record.resumption)
    if record.tally:
        out["tally"] = plain(record.tally)
    if record.reopens:
        out["reopens"] = _next_to_json(record.reopens)
    return out


def _record_from_json(raw: Mapping[str, Json]) -> Record:
    """What most records lack costs nothing here: a replay reads thousands of steps."""
    shape = shape_of(Record)
    held = {
        **shape.given,
        **_UNSAID_OF_RECORD,
        **(raw if raw.keys() <= shape.names else known_fields(raw, shape.names)),
    }
    held["kind"] = _KINDS[raw["kind"]]
    for name in raw.keys() & _READERS.keys():
        held[name] = _READERS[name](raw[name])
    return build_whole(Record, held, shape)


_KINDS = {str(kind): kind for kind in Kind}
_UNSAID = {"page": 100, "chunk": 10, "evaluator": 1}  # where a record does not say: the constants of format 1, for good
_RARE = ("by_arrival", "kept", "since_ms", "lane")  # of a fork: left out where they are false
_UNSAID_OF_RECORD = {"evaluator": _UNSAID["evaluator"]}


def _said(value: Record | Fork) -> dict[str, Json]:
    """Returns the numbers that the record keeps, if they differ from those of format 1."""
    return {name: part for name, usual in _UNSAID.items() if (part := getattr(value, name, usual)) != usual}


def _next_to_json(following: Next) -> dict[str, Json]:
    match following:
        case Goto(node):
            return {"to": node}
        case RetryAt(at_ms):
            return {"retry_at_ms": at_ms}
        case Pause():
            return {"pause": plain(following)}
        case Fork(groups, join, needs):
            forked: dict[str, Json] = {"fork": [plain(group) for group in groups], "join": join, **_said(following)}
            forked |= {name: part for name in _RARE if (part := getattr(following, name))}
            return {**forked, "needs": needs} if needs else forked
        case CleanUp(status, until_ms):
            return {"clean_up": status, "until_ms": until_ms}
        case Compensate(status, error):
            return {"undo": status, "error": plain(error)} if error else {"undo": status}
        case End(status, error, at_join):
            out: dict[str, Json] = {"end": status}
            out |= {"error": plain(error)} if error else {}
            return {**out, "at_join": True} if at_join else out


def _next_from_json(raw: Mapping[str, Json]) -> Next:
    if "to" in raw:
        return Goto(raw["to"])
    if "retry_at_ms" in raw:
        return RetryAt(raw["retry_at_ms"])
    if "pause" in raw:
        return build(Pause, raw["pause"])
    if "fork" in raw:
        return _fork_from_json(raw)
    if "clean_up" in raw:
        return CleanUp(Status(raw["clean_up"]), raw["until_ms"])
    if "undo" in raw:
        return Compensate(Status(raw["undo"]), build_or_none(Failure, raw.get("error")))
    return End(Status(raw["end"]), build_or_none(Failure, raw.get("error")), raw.get("at_join", False))


def _fork_from_json(raw: Mapping[str, Json]) -> Fork:
    groups = tuple(build(Group, group) for group in raw["fork"])
    needs = tuple(tuple(one) for one in raw.get("needs", ()))
    page, chunk = (raw.get(name, _UNSAID[name]) for name in ("page", "chunk"))
    kept, since_ms = tuple(raw.get("kept", ())), raw.get("since_ms", 0)
    lane = raw.get("lane", 0)
    return Fork(groups, raw["join"], needs, page, chunk, raw.get("by_arrival", False), kept, since_ms, lane)


def _parked_to_json(parked: Parked) -> dict[str, Json]:
    out = plain(parked, skip=("arms", "asked_by_step", "children"))
    out["arms"] = [_arm_to_json(arm) for arm in parked.arms]
    if parked.asked_by_step:
        out["asked_by_step"] = plain(parked.asked_by_step)
    if parked.children:
        out["children"] = [plain(one) for one in parked.children]
    return out


def _arm_to_json(arm: Arm) -> dict[str, Json]:
    return {**plain(arm, skip=("topics",)), "topics": [[topic.name, topic.key] for topic in arm.topics]}


def _parked_from_json(raw: Mapping[str, Json]) -> Parked:
    arms = tuple(_arm_from_json(arm) for arm in raw["arms"])
    asked = build_or_none(Pause, raw.get("asked_by_step"))
    parts = {name: tuple(raw.get(name, ())) for name in ("escalate_to", "locks", "cancelled")}
    return build(Parked, raw, arms=arms, asked_by_step=asked, children=_called(raw), **parts)


def _arm_from_json(raw: Mapping[str, Json]) -> Arm:
    topics = tuple(Topic(*topic) for topic in raw["topics"])
    return build(Arm, raw, topics=topics, parts=tuple(raw.get("parts", ())))


def _called(raw: Mapping[str, Json]) -> tuple[Called, ...]:
    return tuple(build(Called, one) for one in raw.get("children", ()))


def _view_to_json(view: StepView) -> dict[str, Json]:
    out = plain(view, skip=("error", "children"))
    if view.error:
        out["error"] = plain(view.error)
    if view.children:
        out["children"] = [plain(one) for one in view.children]
    return out


def _view_from_json(raw: Mapping[str, Json]) -> StepView:
    return build(StepView, raw, error=build_or_none(Failure, raw.get("error")), children=_called(raw))


_PARTS: dict[str, Callable[[Any], dict[str, Json]]] = {
    "parked": _parked_to_json,
    "undoing": _undoing_to_json,
    "aside": _aside_to_json,
}

_READERS: dict[str, Callable[[Any], object]] = {  # of the fields of a record that are not what JSON has
    "error": partial(build_or_none, Failure),
    "rules": tuple,
    "next": lambda raw: _next_from_json(raw) if raw else None,
    "parked": lambda raw: _parked_from_json(raw) if raw else None,
    "resumption": partial(build_or_none, Resumption),
    "tally": partial(build_or_none, Tally),
    "reopens": lambda raw: _fork_from_json(raw) if raw else None,
}
