"""Converts records and tokens to JSON and back: compact, exact, and tolerant of fields that a later version adds."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from functools import partial
from typing import Any, TypeVar

from stepwell.definition.graph import Json
from stepwell.engine import formats
from stepwell.engine.copying import made
from stepwell.engine.jsons import fast_encoder
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
from stepwell.engine.token import Aside, Begun, Cleaning, Gathered, Locks, Outlook, Permit, StepView, Token, Undoing

T = TypeVar("T")

_encode = fast_encoder(
    json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False, check_circular=False)
)
_decoder: Any = json.JSONDecoder()
_scan = _decoder.scan_once


def encode_record(record: Record, *, is_newest: bool = False) -> str:
    """Encodes a record as one line of JSON with the format's number; default values are left out.

    `is_newest`: of a branch that began in a lane, which only newer code finds.
    """
    number = formats.NEWEST if is_newest else _number_of(record.next)
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
        return build(_read(body))
    except formats.BROKEN as error:
        raise formats.unreadable(what, error) from error


def _read(body: str) -> Json:
    """Reads JSON as this module writes it, without a look for space around it."""
    try:
        found, end = _scan(body, 0)
    except StopIteration:
        end = -1
    return found if end == len(body) else json.loads(body)


def encode_token(token: Token) -> str:
    """Encodes a snapshot: the fold with its last record, without the data that a branch gets from its parent."""
    out = _plain(
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
    for name in ("error", "resumption", "cleaning", "locks", "permit", "gathered"):
        if (part := getattr(token, name)) is not None:
            out[name] = _plain(part)
    for name in ("received", "released", "returned"):
        if parts := getattr(token, name):
            out[name] = [_plain(one) for one in parts]
    for name, part_to_json in _PARTS.items():
        if (part := getattr(token, name)) is not None:
            out[name] = part_to_json(part)
    if token.tasks:
        out["tasks"] = {str(slot): _begun_to_json(one) for slot, one in token.tasks.items()}
    number = max(_number_of(token.fork), _number_of(token.last.next if token.last else None))
    return _encode(out | {formats.KEY: number, "fold": formats.FOLD})


def _number_of(following: Next | None) -> int:
    """Returns the number of the format: code that knows no lanes must not read a fork that has some."""
    return formats.NEWEST if isinstance(following, Fork) and following.lane else formats.FORMAT


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
    return _build(
        Token,
        raw,
        phase=Phase(raw.get("phase", Phase.INITIALIZING)),
        last=_record_from_json(last) if last else None,
        steps={name: _view_from_json(view) for name, view in raw.get("steps", {}).items()},
        end=_next_from_json(end) if end else None,
        fork=_next_from_json(fork) if fork else None,
        error=_part(Failure, raw.get("error")),
        resumption=_part(Resumption, raw.get("resumption")),
        parked=_parked_from_json(raw["parked"]) if raw.get("parked") else None,
        received=tuple(_build(Resumption, one) for one in raw.get("received", ())),
        seen={topic: tuple(events) for topic, events in raw.get("seen", {}).items()},
        cleaning=_build(Cleaning, raw["cleaning"], status=Status(raw["cleaning"]["status"]))
        if raw.get("cleaning")
        else None,
        undoing=_undoing_from_json(raw["undoing"]) if raw.get("undoing") else None,
        locks=_locks_from_json(raw["locks"]) if raw.get("locks") else None,
        released=tuple(_locks_from_json(one) for one in raw.get("released", ())),
        permit=_part(Permit, raw.get("permit")),
        gathered=_gathered_from_json(raw["gathered"]) if raw.get("gathered") else None,
        returned=tuple(_build(Permit, one) for one in raw.get("returned", ())),
        aside=_aside_from_json(raw["aside"]) if raw.get("aside") else None,
        tasks={int(slot): _begun_from_json(one) for slot, one in raw.get("tasks", {}).items()},
        dropped=_places(raw.get("dropped", ())),
    )


def _begun_from_json(raw: Mapping[str, Json]) -> Begun:
    waits = {int(index): _build(Outlook, one) for index, one in raw.get("waits", {}).items()}
    return _build(Begun, raw, open=tuple(raw.get("open", ())), cancelled=_places(raw.get("cancelled", ())), waits=waits)


def _begun_to_json(begun: Begun) -> dict[str, Json]:
    out = _plain(begun, skip=("waits",))
    return out | {"waits": {str(index): _plain(one) for index, one in begun.waits.items()}} if begun.waits else out


def _places(raw: Sequence[Sequence[int]]) -> tuple[Place, ...]:
    return tuple((slot, index) for slot, index in raw)


def _aside_to_json(aside: Aside) -> dict[str, Json]:
    out = _plain(aside, skip=("last", "parked", "resumption", "received"))
    out |= {"last": _record_to_json(aside.last), "received": [_plain(one) for one in aside.received]}
    out |= {"parked": _parked_to_json(aside.parked)} if aside.parked else {}
    return out | ({"resumption": _plain(aside.resumption)} if aside.resumption else {})


def _aside_from_json(raw: Mapping[str, Json]) -> Aside:
    return _build(
        Aside,
        raw,
        last=_record_from_json(raw["last"]),
        parked=_parked_from_json(raw["parked"]) if raw.get("parked") else None,
        resumption=_part(Resumption, raw.get("resumption")),
        received=tuple(_build(Resumption, one) for one in raw["received"]),
    )


def _locks_from_json(raw: Mapping[str, Json]) -> Locks:
    return _build(Locks, raw, names=tuple(raw["names"]))


def _gathered_from_json(raw: Mapping[str, Json]) -> Gathered:
    return _build(Gathered, raw, given=tuple(raw["given"]))


def _undoing_to_json(undoing: Undoing) -> dict[str, Json]:
    out = _plain(undoing, skip=("error",))
    return {**out, "error": _plain(undoing.error)} if undoing.error else out


def _undoing_from_json(raw: Mapping[str, Json]) -> Undoing:
    undone = tuple(raw.get("undone", ()))
    return _build(Undoing, raw, status=Status(raw["status"]), error=_part(Failure, raw.get("error")), undone=undone)


def failure_to_json(failure: Failure | None) -> dict[str, Json] | None:
    return None if failure is None else _plain(failure, skip=("raised",))


def told_failure(failure: Failure | None) -> dict[str, Json] | None:
    """What expressions, parents and subscribers get of a failure: all but the code's own lines."""
    return None if failure is None else _plain(failure, skip=("traceback", "retry_after_ms", "raised"))


def _record_to_json(record: Record) -> dict[str, Json]:
    out = _plain(record, skip=("error", "next", "parked", "resumption", "tally", "evaluator", "reopens")) | _said(
        record
    )
    if record.error:
        out["error"] = _plain(record.error)
    if record.next:
        out["next"] = _next_to_json(record.next)
    if record.parked:
        out["parked"] = _parked_to_json(record.parked)
    if record.resumption:
        out["resumption"] = _plain(record.resumption)
    if record.tally:
        out["tally"] = _plain(record.tally)
    if record.reopens:
        out["reopens"] = _next_to_json(record.reopens)
    return out


def _record_from_json(raw: Mapping[str, Json]) -> Record:
    """What most records lack costs nothing here: a replay reads thousands of steps."""
    shape = _shape(Record)
    held = {**shape.given, **_UNSAID_OF_RECORD, **(raw if raw.keys() <= shape.names else _known(raw, shape.names))}
    held["kind"] = _KINDS[raw["kind"]]
    for name in raw.keys() & _READERS.keys():
        held[name] = _READERS[name](raw[name])
    return _whole(Record, held, shape)


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
            return {"pause": _plain(following)}
        case Fork(groups, join, needs):
            forked: dict[str, Json] = {"fork": [_plain(group) for group in groups], "join": join, **_said(following)}
            forked |= {name: part for name in _RARE if (part := getattr(following, name))}
            return {**forked, "needs": needs} if needs else forked
        case CleanUp(status, until_ms):
            return {"clean_up": status, "until_ms": until_ms}
        case Compensate(status, error):
            return {"undo": status, "error": _plain(error)} if error else {"undo": status}
        case End(status, error, at_join):
            out: dict[str, Json] = {"end": status}
            out |= {"error": _plain(error)} if error else {}
            return {**out, "at_join": True} if at_join else out


def _next_from_json(raw: Mapping[str, Json]) -> Next:
    if "to" in raw:
        return Goto(raw["to"])
    if "retry_at_ms" in raw:
        return RetryAt(raw["retry_at_ms"])
    if "pause" in raw:
        return _build(Pause, raw["pause"])
    if "fork" in raw:
        return _fork_from_json(raw)
    if "clean_up" in raw:
        return CleanUp(Status(raw["clean_up"]), raw["until_ms"])
    if "undo" in raw:
        return Compensate(Status(raw["undo"]), _part(Failure, raw.get("error")))
    return End(Status(raw["end"]), _part(Failure, raw.get("error")), raw.get("at_join", False))


def _fork_from_json(raw: Mapping[str, Json]) -> Fork:
    groups = tuple(_build(Group, group) for group in raw["fork"])
    needs = tuple(tuple(one) for one in raw.get("needs", ()))
    page, chunk = (raw.get(name, _UNSAID[name]) for name in ("page", "chunk"))
    kept, since_ms = tuple(raw.get("kept", ())), raw.get("since_ms", 0)
    lane = raw.get("lane", 0)
    return Fork(groups, raw["join"], needs, page, chunk, raw.get("by_arrival", False), kept, since_ms, lane)


def _parked_to_json(parked: Parked) -> dict[str, Json]:
    out = _plain(parked, skip=("arms", "asked_by_step", "children"))
    out["arms"] = [_arm_to_json(arm) for arm in parked.arms]
    if parked.asked_by_step:
        out["asked_by_step"] = _plain(parked.asked_by_step)
    if parked.children:
        out["children"] = [_plain(one) for one in parked.children]
    return out


def _arm_to_json(arm: Arm) -> dict[str, Json]:
    return {**_plain(arm, skip=("topics",)), "topics": [[topic.name, topic.key] for topic in arm.topics]}


def _parked_from_json(raw: Mapping[str, Json]) -> Parked:
    arms = tuple(_arm_from_json(arm) for arm in raw["arms"])
    asked = _part(Pause, raw.get("asked_by_step"))
    parts = {name: tuple(raw.get(name, ())) for name in ("escalate_to", "locks", "cancelled")}
    return _build(Parked, raw, arms=arms, asked_by_step=asked, children=_called(raw), **parts)


def _arm_from_json(raw: Mapping[str, Json]) -> Arm:
    topics = tuple(Topic(*topic) for topic in raw["topics"])
    return _build(Arm, raw, topics=topics, parts=tuple(raw.get("parts", ())))


def _called(raw: Mapping[str, Json]) -> tuple[Called, ...]:
    return tuple(_build(Called, one) for one in raw.get("children", ()))


def _view_to_json(view: StepView) -> dict[str, Json]:
    out = _plain(view, skip=("error", "children"))
    if view.error:
        out["error"] = _plain(view.error)
    if view.children:
        out["children"] = [_plain(one) for one in view.children]
    return out


def _view_from_json(raw: Mapping[str, Json]) -> StepView:
    return _build(StepView, raw, error=_part(Failure, raw.get("error")), children=_called(raw))


_PARTS: dict[str, Callable[[Any], dict[str, Json]]] = {
    "parked": _parked_to_json,
    "undoing": _undoing_to_json,
    "aside": _aside_to_json,
}

# -- the generic part: dataclass fields by name, defaults left out


@dataclass(frozen=True, slots=True)
class _Shape:
    """What a class's fields are, looked up once: records are made and read more often than anything else."""

    names: frozenset[str]
    defaults: tuple[tuple[str, object], ...]  # of every field; MISSING where it has none
    given: dict[str, Any]  # the defaults as the fields of a value
    factories: tuple[tuple[str, Callable[[], object]], ...]
    is_open: bool  # it has no slots: `made` may build it


_SHAPES: dict[type, _Shape] = {}


def _shape(cls: type) -> _Shape:
    known = _SHAPES.get(cls)
    if known is None:
        all_fields = fields(cls)
        factories = tuple((f.name, f.default_factory) for f in all_fields if f.default_factory is not MISSING)
        made_once = dict(factories)
        defaults = tuple((f.name, made_once[f.name]() if f.name in made_once else f.default) for f in all_fields)
        given = {name: default for name, default in defaults if default is not MISSING and name not in made_once}
        names = frozenset(name for name, _ in defaults)
        known = _SHAPES[cls] = _Shape(names, defaults, given, factories, not hasattr(cls, "__slots__"))
    return known


def _plain(value: object, skip: tuple[str, ...] = ()) -> dict[str, Json]:
    out: dict[str, Json] = {}
    shape = _shape(type(value))
    held = value.__dict__ if shape.is_open else {name: getattr(value, name) for name in shape.names}
    for name, default in shape.defaults:
        part = held[name]
        if part is default or name in skip or (default is not None and part == default):
            continue  # a None default keeps {} and "" and 0: they are values
        out[name] = part
    return out


def _build(cls: type[T], raw: Mapping[str, Json], **built: object) -> T:
    shape = _shape(cls)
    mine = raw if raw.keys() <= shape.names else _known(raw, shape.names)
    if not shape.is_open:
        parts: dict[str, Any] = {**mine, **built}
        return cls(**parts)
    return _whole(cls, {**shape.given, **{name: make() for name, make in shape.factories}, **mine, **built}, shape)


def _known(raw: Mapping[str, Json], names: frozenset[str]) -> dict[str, Json]:
    """Leaves out what a later version has added."""
    return {name: part for name, part in raw.items() if name in names}


def _whole(cls: type[T], held: dict[str, Any], shape: _Shape) -> T:
    if len(held) < len(shape.names):
        raise TypeError(f"{cls.__name__} lacks {', '.join(sorted(shape.names - held.keys()))}")
    return made(cls, held)


def _part(cls: type[T], raw: Mapping[str, Json] | None) -> T | None:
    return None if raw is None else _build(cls, raw)


_READERS: dict[str, Callable[[Any], object]] = {  # of the fields of a record that are not what JSON has
    "error": partial(_part, Failure),
    "rules": tuple,
    "next": lambda raw: _next_from_json(raw) if raw else None,
    "parked": lambda raw: _parked_from_json(raw) if raw else None,
    "resumption": partial(_part, Resumption),
    "tally": partial(_part, Tally),
    "reopens": lambda raw: _fork_from_json(raw) if raw else None,
}
