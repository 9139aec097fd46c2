"""Tasks of a durable function: operations under way beside each other, and how their ends reach the function.

    function   0 ── 3: WAITING (begins a, b) ── 4: RECEIVED (b ended) ── 5: WAITING (begins c) ── 6: RECEIVED (a) ──
    branches        0/3.0  0/3.1                                         0/5.0

Each operation is a branch of the record that began it. Its end is an input to the function's token, in any phase, and
is recorded in the order of arrival, so a replay sees the same order. Whoever wrote a record opens its branches; others
may write the next records meanwhile. So the token remembers who began what, until that has ended.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from stepwell.engine.records import ENDED, TASKS, CleanUp, Compensate, End, Fork, Kind, Parked, Place, Record
from stepwell.engine.table import Signal
from stepwell.engine.token import Begun, Outlook, Token
from stepwell.engine.waits.kind import kind_named
from stepwell.limits import HOUR_MS

_KEPT_MS = HOUR_MS  # who wrote a cancel comes again within minutes, if it died before it carried that out


def place_of(text: str) -> Place:
    """Returns the place that a record names as `slot.index`."""
    slot, _, index = text.partition(".")
    return int(slot), int(index)


def named(place: Place) -> str:
    """Returns a place as records name it."""
    return f"{place[0]}.{place[1]}"


def wait_shown(token: Token) -> tuple[Parked, str] | None:
    """Returns the wait that stands for all that a function's tasks wait for, and its name; None while one works.

    People come first, then what is due first. With nothing under way, that is a wait of the function's own.
    """
    parked = token.parked
    if token.ended or parked is None or not parked.of_tasks or token.resumption is not None:
        return None
    found: list[tuple[bool, float, Outlook, int]] = []
    for begun in token.tasks.values():
        for index in begun.open:
            if index not in begun.waits:
                return None
            one = begun.waits[index]
            due_ms = math.inf if one.until_ms is None else one.until_ms
            found.append((not kind_named(one.kind).asks_people, due_ms, one, begun.at_ms))
    if not found:
        return Parked(TASKS, (), parked.until_ms, since_ms=parked.since_ms), TASKS
    _, _, first, since_ms = min(found, key=lambda one: one[:2])
    return Parked(first.kind, (), first.until_ms, since_ms=since_ms), first.name


def due_first_ms(token: Token) -> int | None:
    """Returns the earliest time limit of the waits that a function's tasks have begun."""
    return min((one.until_ms for one in _open_waits(token) if one.until_ms is not None), default=None)


def await_runs(token: Token) -> bool:
    """Tells whether a function's tasks wait for child runs."""
    return any(kind_named(one.kind).signal is Signal.CALLED for one in _open_waits(token))


def _open_waits(token: Token) -> Iterator[Outlook]:
    for begun in token.tasks.values():
        yield from (begun.waits[index] for index in begun.open if index in begun.waits)


def after(token: Token, last: Record) -> dict[str, Any]:
    """Returns the changed fields: what is under way, what this record ended, and whether all waited before it."""
    return {"tasks_waited": wait_shown(token) is not None or _is_unshown(token, last), **_after(token, last)}


def _is_unshown(token: Token, last: Record) -> bool:
    """Tells whether a new life may leave the header at `waiting`: another began what is left, and may have died.

    A     WAITING (begins a) ── dies before the header says that a works
    B                                     RECEIVED (b ended) ── RETURNED, after which A finds nothing of its own
    """
    return last.kind is Kind.RETURNED and any(one.by and one.by != last.by for one in token.tasks.values())


def _after(token: Token, last: Record) -> dict[str, Any]:
    if last.parked is not None and last.parked.of_tasks:
        return _waited(token, last, last.parked)
    if last.resumption is not None and last.resumption.kind == ENDED:
        slot, index = place_of(last.resumption.part)
        begun = token.tasks[slot]
        left = replace(begun, open=tuple(one for one in begun.open if one != index))
        calls = token.calls + (last.tally.calls if last.tally else 0)
        return {"tasks": {**_kept(token, last, slot), **_if_needed(slot, left)}, "dropped": (), "calls": calls}
    if last.kind is Kind.REDRIVEN:
        held = {slot: replace(one, by="", cancelled=(), is_held=True) for slot, one in token.tasks.items() if one.open}
        return {"tasks": held, "dropped": ()}
    if last.kind is Kind.RETURNED or isinstance(last.next, End | CleanUp | Compensate):
        return {"tasks": {}, "dropped": tuple(dict.fromkeys((*_left_by(token, last), *_left(token.tasks))))}
    return {"dropped": ()}


def _waited(token: Token, last: Record, parked: Parked) -> dict[str, Any]:
    cancelled = tuple(place_of(one) for one in parked.cancelled)
    tasks = _kept(token, last)
    for slot in {slot for slot, _ in cancelled} & tasks.keys():  # of thousands within an hour, few change
        tasks[slot] = _but(tasks[slot], slot, cancelled)
    width = last.next.width if isinstance(last.next, Fork) else 0
    tasks = {slot: _let_on(one, last) for slot, one in tasks.items() if one.open or one.cancelled}
    own = Begun(last.by, last.at_ms, tuple(range(width)), cancelled, dict(_waits(last, parked)))
    has_timer = parked.until_ms is not None  # which nobody else sets, either
    return {"tasks": {**tasks, **({last.slot: own} if has_timer else _if_needed(last.slot, own))}, "dropped": cancelled}


def _but(begun: Begun, slot: int, cancelled: tuple[Place, ...]) -> Begun:
    """Returns what a record began without what is cancelled. One of which nothing is left stays known by that.

    Its writer may have died before it showed that its tasks work. It comes again, finds the record, and shows it.
    """
    left = tuple(index for index in begun.open if (slot, index) not in cancelled)
    if left or begun.cancelled or not begun.by:
        return replace(begun, open=left)
    return replace(begun, open=left, cancelled=tuple((slot, index) for index in begun.open))


def _let_on(begun: Begun, last: Record) -> Begun:
    """What a redriven run has kept goes on with the first record of its tasks. Their waits have their whole time."""
    if not begun.is_held:
        return begun
    waits = {
        index: one if one.until_ms is None else replace(one, until_ms=last.at_ms + one.until_ms - begun.at_ms)
        for index, one in begun.waits.items()
    }
    return replace(begun, by=last.by, at_ms=last.at_ms, waits=waits, is_held=False, let_on_slot=last.slot)


def names_of(record: Record) -> tuple[str, ...]:
    """Returns the names of the operations that tasks began with this record: it holds `kind name`."""
    parked = record.parked
    begun: list[str] = parked.data["begun"] if parked is not None and parked.of_tasks else []
    return tuple(one.partition(" ")[2] or one for one in begun)


def _waits(last: Record, parked: Parked) -> Iterator[tuple[int, Outlook]]:
    """Yields what the record tells of the waits that it began. A record of an earlier release does not."""
    names = names_of(last)
    for index, kind, limit_ms in parked.data.get("waits", ()):
        yield index, Outlook(kind, names[index], None if limit_ms is None else last.at_ms + limit_ms)


def _kept(token: Token, last: Record, but: int = -1) -> dict[int, Begun]:
    since_ms = last.at_ms - _KEPT_MS
    kept = {slot: one for slot, one in token.tasks.items() if slot != but and (one.open or one.at_ms >= since_ms)}
    if token.slot in kept and kept[token.slot].by == last.by:  # who goes on has carried out what it wrote
        kept[token.slot] = replace(kept[token.slot], by="")
    return kept


def _if_needed(slot: int, begun: Begun) -> Mapping[int, Begun]:
    return {slot: begun} if begun.open or begun.cancelled else {}


def _left_by(token: Token, last: Record) -> tuple[Place, ...]:
    """Returns what the record before this one ended, if another wrote it, who may have died before it ended that."""
    return token.dropped if token.last is not None and token.last.by != last.by else ()


def _left(tasks: Mapping[int, Begun]) -> Iterator[Place]:
    """Yields what is under way, and what was cancelled by somebody who may have died before it ended that."""
    for slot, one in sorted(tasks.items()):
        yield from ((slot, index) for index in one.open)
        yield from one.cancelled if one.by else ()
