"""Rows of a durable function's operations of one name: its steps, and apart from them its approvals and other waits.

    step sign ── approval sign ── step sign        sign · sign (approval)

A token keeps the last view of each name alone, so that the others are taken from the log, if all of it was read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias, TypeVar

from stepwell.engine.fold import apply
from stepwell.engine.records import Goto, Kind, Parked, Record
from stepwell.engine.token import StepView, Token
from stepwell.engine.waits.several import shown_as
from stepwell.runtime.log.standing import Standing

T = TypeVar("T")
Row: TypeAlias = tuple[str, str]  # the name of an operation, and the kind of its wait; "": it is none
_STEPS = frozenset({Kind.STEP, Kind.BEGAN})


def tells_waits(at: Standing) -> bool:
    """Tells whether the rows of waits are known by their kinds."""
    return at.graph.replays and at.read is not None


def wait_in(parked: Parked | None) -> str:
    """Returns the kind of a wait that a function itself awaits; "" for any other."""
    return shown_as(parked) if parked is not None and parked.of_function and not parked.of_tasks else ""


def own_rows(at: Standing, views: Mapping[str, StepView]) -> dict[Row, StepView]:
    """Returns the rows of the run's own token. `views`: the last one of each name."""
    if not tells_waits(at) or at.read is None:
        return {(name, ""): view for name, view in views.items()}
    kinds: dict[str, dict[str, None]] = {}  # by name, the last one at the end
    for record in at.read:
        if _begins_anew(record):
            kinds.clear()
        if (kind := _kind_of(record)) is not None:
            seen = kinds.setdefault(record.node, {})
            seen.pop(kind, None)
            seen[kind] = None
    before = _before(at, {name for name, seen in kinds.items() if len(seen) > 1})
    return before | {(name, next(reversed(kinds.get(name, {"": None})))): view for name, view in views.items()}


def _kind_of(record: Record) -> str | None:
    """Returns the kind of the operation that a record begins or ends; None if it tells none."""
    return wait_in(record.parked) or ("" if record.kind in _STEPS else None)


def _begins_anew(record: Record) -> bool:
    """Tells whether the function goes on as a new one, without the operations of its life until here."""
    return record.kind is Kind.RETURNED and isinstance(record.next, Goto)


def _before(at: Standing, names: set[str]) -> dict[Row, StepView]:
    """Returns the last view of each kind of operation of these names."""
    found: dict[Row, StepView] = {}
    token = Token()
    for record in at.read or () if names else ():
        before, token = token, apply(token, record)
        if _begins_anew(record):
            found.clear()
        if record.node in names and (view := token.steps.get(record.node)) is not before.steps.get(record.node):
            kind = wait_in(token.parked) if record.kind not in _STEPS else ""
            if view is not None:
                found[record.node, kind] = view
    return found


def labelled(rows: Mapping[Row, T]) -> dict[str, T]:
    """Names the rows: a wait that shares its name gets its kind behind that."""
    names = [name for name, _ in rows]
    return {f"{name} ({kind})" if kind and names.count(name) > 1 else name: one for (name, kind), one in rows.items()}
