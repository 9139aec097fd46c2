"""How the operations of a durable program stand in a log: their kinds and names, and what is stored of their values."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from stepwell.definition.child_names import child_names
from stepwell.engine.durable.journal import RUN, TRANSACT
from stepwell.engine.limits.locks import UNLOCK
from stepwell.engine.records import Fork, Kind, Parked, Record
from stepwell.engine.waits.aside import CODE, LIMIT
from tests.sim.fn_values import Statement


class OddLogError(Exception):
    """A log holds what the program, run plainly, does not do."""


def check(record: Record, what: str, found: Any, expected: Any) -> None:
    """Raises OddLogError where a record is not what plain asyncio makes."""
    if found != expected:
        raise OddLogError(f"slot {record.slot}: {what} {found!r}; plain asyncio makes {expected!r}")


def shown_of(one: Statement, value: Any) -> Any:
    """A branch that is one operation brings what is stored of it: what its program would have made of that."""
    match one.get("do"):
        case "approval":
            return [value["decision"], value["by"]]
        case "child":
            return value[one["workflow"]]
        case "all":
            return _of_all(one["of"], value)
        case "first":
            return _of_first(one["of"], value)
    return value


def _of_all(of: Sequence[Statement], value: Any) -> list[Any]:
    leaves = [leaf_of(each) for each in of]
    if are_one_set(leaves):
        names = child_names([(leaf["workflow"], None) for leaf in leaves])
        return [wrapped(each, value[name]) for each, name in zip(of, names, strict=True)]
    parts = [value] if is_one_wait("all", of) and len(of) == 1 else value
    return [shown_of(each, part) for each, part in zip(of, parts, strict=True)]


def _of_first(of: Sequence[Statement], value: Any) -> list[Any]:
    winner, part = 0, value
    if not is_one_wait("first", of):
        ((winner, part),) = value.items()
    elif len(of) > 1:
        winner, part = value
    return [int(winner), shown_of(of[int(winner)], part)]


def are_one_set(leaves: Sequence[Statement]) -> bool:
    """Whether all that is awaited together is one wait for child runs: with other time limits each is a branch."""
    return all(leaf.get("do") == "child" for leaf in leaves) and len({leaf["seconds"] for leaf in leaves}) == 1


def leaf_of(one: Statement) -> Statement:
    """The wait, or the child run, that this is: `all` or `first` of a single one is nothing more than that."""
    if one.get("do") not in _SINGLE or len(one["of"]) != 1:
        return one
    leaf = leaf_of(one["of"][0])
    return leaf if leaf.get("do") in _SINGLE[one["do"]] else one


def wrapped(one: Statement, value: Any) -> Any:
    """What the program makes of what its leaf brought."""
    if leaf_of(one) is one:
        return value
    inner = wrapped(one["of"][0], value)
    return [inner] if one["do"] == "all" else [0, inner]


_SINGLE = {"all": {"event", "approval", "child"}, "first": {"event", "approval", "sleep"}}


def is_one_wait(kind: str, of: Sequence[Statement]) -> bool:
    """Whether all that is awaited together is one wait: of `all`, with other time limits each is a branch."""
    kinds, leaves = {"event", "approval"} | ({"sleep"} if kind == "first" else set()), [leaf_of(each) for each in of]
    are_waits = all(leaf.get("do") in kinds for leaf in leaves)
    return are_waits and (kind == "first" or len({leaf["seconds"] for leaf in leaves}) == 1)


def name_of(one: Statement) -> str:
    return str({"sleep": "sleep", "event": one.get("name"), "approval": "approval"}[one["do"]])


def kind_of(record: Record) -> str:
    """The operation that a record begins."""
    match record.kind:
        case Kind.STEP | Kind.BEGAN:
            return next((kind for kind in (RUN, TRANSACT) if kind in record.rules), "step")
        case Kind.MOVED if UNLOCK in record.rules:
            return UNLOCK
        case Kind.MOVED if isinstance(record.next, Fork):
            return record.next.join
        case Kind.WAITING if record.parked:
            several = len(record.parked.arms) > 1
            return ("all" if record.parked.is_all else "any") if several else record.parked.kind
    return str(record.kind)


def parked_of(record: Record) -> Parked:
    if record.parked is None:
        raise OddLogError(f"slot {record.slot} is no wait")
    return record.parked


def is_for_code(record: Record) -> bool:
    """Or for a permit: it steps aside, which is no part of any program."""
    return record.parked is not None and record.parked.kind in {CODE, LIMIT}


def from_json(text: Any) -> Any:
    return json.loads(text) if isinstance(text, str) else text
