"""Tasks of a durable function: operations under way beside each other, and how their ends reach the function.

    function   0 ── 3: WAITING (begins a, b) ── 4: RECEIVED (b ended) ── 5: WAITING (begins c) ── 6: RECEIVED (a) ──
    branches        0/3.0  0/3.1                                         0/5.0

Each operation is a branch of the record that began it. Its end is an input to the function's token, in any phase, and
is recorded in the order of arrival, so a replay sees the same order. Whoever wrote a record opens its branches; others
may write the next records meanwhile. So the token remembers who began what, until that has ended.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from stepwell.engine.records import ENDED, CleanUp, Compensate, End, Fork, Kind, Parked, Place, Record
from stepwell.engine.token import Begun, Token
from stepwell.limits import HOUR_MS

_KEPT_MS = HOUR_MS  # who wrote a cancel comes again within minutes, if it died before it carried that out


def place_of(text: str) -> Place:
    """Returns the place that a record names as `slot.index`."""
    slot, _, index = text.partition(".")
    return int(slot), int(index)


def named(place: Place) -> str:
    """Returns a place as records name it."""
    return f"{place[0]}.{place[1]}"


def after(token: Token, last: Record) -> dict[str, Any]:
    """Returns the changed fields: what is under way, and what this record ended."""
    if last.parked is not None and last.parked.of_tasks:
        return _waited(token, last, last.parked)
    if last.resumption is not None and last.resumption.kind == ENDED:
        slot, index = place_of(last.resumption.part)
        begun = token.tasks[slot]
        left = replace(begun, open=tuple(one for one in begun.open if one != index))
        calls = token.calls + (last.tally.calls if last.tally else 0)
        return {"tasks": {**_kept(token, last, slot), **_if_needed(slot, left)}, "dropped": (), "calls": calls}
    if last.kind is Kind.RETURNED or isinstance(last.next, End | CleanUp | Compensate):
        return {"tasks": {}, "dropped": tuple(_left(token.tasks))}
    return {"dropped": ()}


def _waited(token: Token, last: Record, parked: Parked) -> dict[str, Any]:
    cancelled = tuple(place_of(one) for one in parked.cancelled)
    tasks = {
        slot: replace(one, open=tuple(index for index in one.open if (slot, index) not in cancelled))
        for slot, one in _kept(token, last).items()
    } if cancelled else _kept(token, last)  # fmt: skip
    width = last.next.width if isinstance(last.next, Fork) else 0
    tasks = {slot: one for slot, one in tasks.items() if one.open or one.cancelled}
    own = Begun(last.by, last.at_ms, tuple(range(width)), cancelled)
    return {"tasks": {**tasks, **_if_needed(last.slot, own)}, "dropped": cancelled}


def _kept(token: Token, last: Record, but: int = -1) -> dict[int, Begun]:
    since_ms = last.at_ms - _KEPT_MS
    kept = {slot: one for slot, one in token.tasks.items() if slot != but and (one.open or one.at_ms >= since_ms)}
    if token.slot in kept and kept[token.slot].by == last.by:  # who goes on has carried out what it wrote
        kept[token.slot] = replace(kept[token.slot], by="")
    return kept


def _if_needed(slot: int, begun: Begun) -> Mapping[int, Begun]:
    return {slot: begun} if begun.open or begun.cancelled else {}


def _left(tasks: Mapping[int, Begun]) -> Iterator[Place]:
    """Yields what is under way, and what was cancelled by somebody who may have died before it ended that."""
    for slot, one in sorted(tasks.items()):
        yield from ((slot, index) for index in one.open)
        yield from one.cancelled if one.by else ()
