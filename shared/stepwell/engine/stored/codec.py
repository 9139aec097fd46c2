"""Converts records to JSON and back: compact, exact, and tolerant of fields that a later version adds."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from stepwell.definition.graph import Json
from stepwell.engine.limits.throttles import OF_SHARES, leaves_line
from stepwell.engine.records import (
    ALONE,
    Arm,
    Called,
    CleanUp,
    Compensate,
    End,
    Failure,
    Finished,
    Fork,
    Goto,
    Group,
    Kind,
    Next,
    Parked,
    Pause,
    Record,
    Resumption,
    RetryAt,
    Status,
    Tally,
    Topic,
)
from stepwell.engine.stored import formats
from stepwell.engine.stored.field_json import build, build_or_none, build_whole, known_fields, plain, shape_of
from stepwell.engine.stored.jsons import fast_encoder, read

T = TypeVar("T")

encode_json = fast_encoder(
    json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False, check_circular=False)
)


def encode_record(record: Record, *, is_gathered: bool = False) -> str:
    """Encodes a record as one line of JSON with the format's number; default values are left out.

    `is_gathered`: of a branch that began in a lane, which only newer code finds.
    """
    number = max(number_of(record), formats.GATHERED if is_gathered else 0)
    return encode_json(_record_to_json(record) | {formats.KEY: number})


def record_json(record: Record) -> dict[str, Json]:
    """Returns a record as JSON without a format's number, for whatever holds several."""
    return _record_to_json(record)


def record_of(raw: Mapping[str, Json]) -> Record:
    """The inverse of `record_json`."""
    return record_with(record_fields(raw))


def record_fields(raw: Mapping[str, Json]) -> dict[str, Any]:
    """Reads fields of a record, all or some of them, from their JSON."""
    shape = shape_of(Record)
    held = dict(raw) if raw.keys() <= shape.names else known_fields(raw, shape.names)
    for name in raw.keys() & _READERS.keys():
        held[name] = _READERS[name](raw[name])
    return held


def record_with(held: Mapping[str, Any]) -> Record:
    """Makes a record of the fields that it has. What most records lack costs nothing here: a replay reads thousands."""
    shape = shape_of(Record)
    return build_whole(Record, {**shape.given, **_UNSAID_OF_RECORD, **held}, shape)


def decode_record(body: str) -> Record:
    """Decodes a record. Raises NewerFormat for a record of newer code, EngineFault for a broken one."""
    return decoded("record", body, _checked_record)


def _checked_record(raw: dict[str, Json]) -> Record:
    formats.check_format(raw.pop(formats.KEY, formats.OLDEST), "record", formats.NEWEST)
    return record_of(raw)


def decoded(what: str, body: str, build: Callable[[dict[str, Json]], T]) -> T:
    try:
        return build(read(body))
    except formats.BROKEN as error:
        raise formats.unreadable(what, error) from error


def number_of(record: Record) -> int:
    """Returns the number of the format: code that knows nothing of an output elsewhere must not read it as none.

    Nor must code that knows no shares let a run go on that has none, or code that knows nothing of finished steps run
    these again, or code that knows no step whose output failed count others to undo, or code that lets pauses alone
    drop places in line keep the place of a token that has left it.
    """
    if leaves_line(record):
        return formats.LEAVING
    if record.is_done:
        return formats.DONE
    if record.finished:
        return formats.FINISHING
    if record.rules and not OF_SHARES.isdisjoint(record.rules):
        return formats.FREEING
    of_wait = number_of_next(record.parked.asked_by_step) if record.parked else 0
    return max(number_of_next(record.next), of_wait, formats.REFERRING if record.output_at >= 0 else 0)


def number_of_next(following: Next | None) -> int:
    """The same of what follows: code that knows no lanes must not read a fork that has some.

    Nor must code that joins a step's result with what comes end the wait of a step that is answered.
    """
    match following:
        case Pause(then=then):
            return formats.ANSWERED if then == ALONE else formats.FORMAT
        case Fork(taken=taken, lane=lane):
            return formats.FINISHING if taken else max(formats.FORMAT, formats.GATHERED) if lane else formats.FORMAT
        case _:
            return formats.FORMAT


def failure_to_json(failure: Failure | None) -> dict[str, Json] | None:
    return None if failure is None else plain(failure, skip=("raised",))


def told_failure(failure: Failure | None) -> dict[str, Json] | None:
    """What expressions, parents and subscribers get of a failure: all but the code's own lines."""
    return None if failure is None else plain(failure, skip=("traceback", "retry_after_ms", "raised"))


def _record_to_json(record: Record) -> dict[str, Json]:
    out = plain(record, skip=_APART)
    if record.evaluator != _UNSAID["evaluator"]:
        out["evaluator"] = record.evaluator
    if record.output_at >= 0:
        out.pop("output", None)
    if record.error:
        out["error"] = plain(record.error)
    if record.next:
        out["next"] = next_json(record.next)
    if record.parked:
        out["parked"] = parked_json(record.parked)
    if record.resumption:
        out["resumption"] = plain(record.resumption)
    if record.tally:
        out["tally"] = plain(record.tally)
    if record.reopens:
        out["reopens"] = next_json(record.reopens)
    if record.finished:
        out["finished"] = [plain(one) for one in record.finished]
    return out


_APART = ("error", "next", "parked", "resumption", "tally", "evaluator", "reopens", "finished")
_KINDS = {str(kind): kind for kind in Kind}
_UNSAID = {"page": 100, "chunk": 10, "evaluator": 1}  # where a record does not say: the constants of format 1, for good
_RARE = ("by_arrival", "kept", "since_ms", "lane", "taken", "by_result")  # of a fork: left out where they are false
_UNSAID_OF_RECORD = {"evaluator": _UNSAID["evaluator"]}


def _said(value: Fork) -> dict[str, Json]:
    """Returns the numbers that the record keeps of its fork, if they differ from those of format 1."""
    return {name: part for name, usual in _UNSAID.items() if (part := getattr(value, name, usual)) != usual}


def next_json(following: Next) -> dict[str, Json]:
    match following:
        case Goto(node):
            return {"to": node}
        case RetryAt(at_ms, used):
            return {"retry_at_ms": at_ms, "used": used} if used else {"retry_at_ms": at_ms}
        case Pause():
            return {"pause": _pause_json(following)}
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


def _pause_json(pause: Pause) -> dict[str, Json]:
    out = plain(pause, skip=("failing",))
    return {**out, "failing": plain(pause.failing)} if pause.failing else out


def _pause_of(raw: Mapping[str, Json]) -> Pause:
    return build(Pause, raw, failing=build_or_none(Failure, raw.get("failing")))


def finished_of(raw: Sequence[Mapping[str, Json]]) -> tuple[Finished, ...]:
    return tuple(build(Finished, one) for one in raw)


def next_of(raw: Mapping[str, Json]) -> Next:
    if "to" in raw:
        return Goto(raw["to"])
    if "retry_at_ms" in raw:
        return RetryAt(raw["retry_at_ms"], tuple(raw.get("used", ())))
    if "pause" in raw:
        return _pause_of(raw["pause"])
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
    lane, taken = raw.get("lane", 0), tuple((index, place) for index, place in raw.get("taken", ()))
    by_arrival, by_result = raw.get("by_arrival", False), raw.get("by_result", False)
    return Fork(groups, raw["join"], needs, page, chunk, by_arrival, kept, since_ms, lane, taken, by_result)


def parked_json(parked: Parked) -> dict[str, Json]:
    out = plain(parked, skip=("arms", "asked_by_step", "children"))
    out["arms"] = [_arm_to_json(arm) for arm in parked.arms]
    if parked.asked_by_step:
        out["asked_by_step"] = _pause_json(parked.asked_by_step)
    if parked.children:
        out["children"] = [plain(one) for one in parked.children]
    return out


def _arm_to_json(arm: Arm) -> dict[str, Json]:
    return {**plain(arm, skip=("topics",)), "topics": [[topic.name, topic.key] for topic in arm.topics]}


def parked_of(raw: Mapping[str, Json]) -> Parked:
    arms = tuple(_arm_from_json(arm) for arm in raw["arms"])
    asked = _pause_of(raw["asked_by_step"]) if raw.get("asked_by_step") else None
    parts = {name: tuple(raw.get(name, ())) for name in ("escalate_to", "locks", "cancelled")}
    return build(Parked, raw, arms=arms, asked_by_step=asked, children=called_of(raw), **parts)


def _arm_from_json(raw: Mapping[str, Json]) -> Arm:
    topics = tuple(Topic(*topic) for topic in raw["topics"])
    return build(Arm, raw, topics=topics, parts=tuple(raw.get("parts", ())))


def called_of(raw: Mapping[str, Json]) -> tuple[Called, ...]:
    return tuple(build(Called, one) for one in raw.get("children", ()))


_READERS: dict[str, Callable[[Any], object]] = {  # of the fields of a record that are not what JSON has
    "kind": _KINDS.__getitem__,
    "error": partial(build_or_none, Failure),
    "rules": tuple,
    "next": lambda raw: next_of(raw) if raw else None,
    "parked": lambda raw: parked_of(raw) if raw else None,
    "resumption": partial(build_or_none, Resumption),
    "tally": partial(build_or_none, Tally),
    "finished": finished_of,
    "reopens": lambda raw: _fork_from_json(raw) if raw else None,
}
