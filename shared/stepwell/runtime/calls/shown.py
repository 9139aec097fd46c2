"""Counts what a fork wrote to show the waits of its branches: the run's header, and the marks of its pages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from operator import itemgetter
from typing import TypeAlias

from stepwell.engine.forks.branches import branch_id, parent_of
from stepwell.engine.forks.lines import Awaited, awaited
from stepwell.engine.forks.marks import is_in_lines, is_one_set
from stepwell.engine.records import End, Fork, Kind, Record
from stepwell.engine.waits.aside import is_for_limit

_Moment: TypeAlias = tuple[int, str]  # a time in ms, and the message that was handled then

_PARKS = frozenset({Kind.WAITING, Kind.RECEIVED})


def shown_writes(
    fork: Fork,
    name: str,
    page: int,
    logs: Mapping[str, Sequence[Record]],
    order: Sequence[int] = (),
    fired: Record | None = None,
) -> int:
    """Counts the header's changes between waiting and running through this page's branches, and its marks.

    A page of a wide fork is taken for the fork: all pages are alike. The marks of branches are included. For a fork in
    a branch, the outer fork is told each time that all wait. The waits of a function's tasks are not shown. `order`:
    the branches in order of arrival, if the join keeps that. `fired`: the record that the join wrote; from then on the
    run shows the root's status, whatever branches still wait for.
    """
    if fork.is_of_tasks:
        return 0
    indexes = {branch_id(name, index): index for index in fork.page_indexes(page)}
    awaits = {index: awaited(fork, index) for index in indexes.values()}
    ended = set[int]()
    live = _pop_ready(awaits, ended)
    waiting, shows_wait, writes = set[int](), False, 0
    unshown = {id(record) for records in logs.values() for record, then in pairwise(records) if is_had(record, then)}
    closing = _closing(logs.values())
    if fired is not None and not closing and _is_outlived(fired, logs.values()):
        closing = {fired.by}
    is_inside = parent_of(name.rpartition("/")[0]) is not None
    has_marks, tells_page, tells_all = False, not is_one_set(fork), not is_in_lines(fork)
    for index, record in _as_shown({indexes[token]: records for token, records in logs.items()}, order, closing):
        if id(record) in unshown:
            continue
        parks, ends = record.kind in _PARKS, isinstance(record.next, End)
        goes_on = record.kind is Kind.RESUMED and not ends
        waiting.discard(index)
        if ends:
            ended.add(index)
            live = (live | _pop_ready(awaits, ended)) - ended
        elif parks:
            waiting.add(index)
        if (ends and record.by in closing) or (fired is not None and record.at_ms > fired.at_ms):
            continue  # the fork has fired
        has_marks |= parks or goes_on
        all_wait = bool(live) and live <= waiting
        if all_wait is not shows_wait and live:
            shows_wait, writes = all_wait, writes + 1
        writes += is_inside and all_wait and (parks or ends)
        if tells_page:
            writes += parks or (tells_all and (goes_on or (ends and has_marks and all_wait)))
    return writes


def is_had(record: Record, following: Record) -> bool:
    """Tells whether the message that asked for locks or a permit got them at once. Such a wait is not shown."""
    parked = record.parked
    is_in_line = parked is not None and (bool(parked.locks) or is_for_limit(parked))
    return is_in_line and following.kind is Kind.RESUMED and following.by == record.by


def _pop_ready(awaits: dict[int, Awaited], ended: set[int]) -> set[int]:
    """Moves out of `awaits` the branches that may begin by now, and returns them: each is checked only until then."""
    begun = {index for index, wait in awaits.items() if wait.is_over(ended)}
    for index in begun:
        del awaits[index]
    return begun


def _as_shown(
    logs: Mapping[int, Sequence[Record]], arrived: Sequence[int], closing: Collection[str]
) -> list[tuple[int, Record]]:
    """Returns the records in the order in which their changes were shown, each with its branch's index.

    Within one millisecond: branches woken from outside come after what was under way, and each branch then goes on
    until it rests again. Branches that begin or end when another one ends have that one's message, and of two messages
    the one whose branch arrived first was handled first. The message that closed the fork comes last.
    """
    turns, places = _turns(logs), {index: place for place, index in enumerate(arrived)}
    lived = []
    for index, records in logs.items():
        for place, record in enumerate(records):
            moment = at_ms, by = _shown(records, place)
            sender = _sender(by, index)
            order = at_ms, by in closing, turns[moment], places.get(sender, len(places) + sender), index, place
            lived.append((order, index, record))
    return [(index, record) for _, index, record in sorted(lived, key=itemgetter(0))]


def _turns(logs: Mapping[int, Sequence[Record]]) -> Mapping[_Moment, int]:
    """Returns how often the branch of a message had been woken from outside within the same millisecond."""
    turns: dict[_Moment, int] = defaultdict(int)
    for index in sorted(logs):
        since_ms, turn = -1, 0
        for place, record in enumerate(logs[index]):
            moment = _shown(logs[index], place)
            if moment[0] != since_ms:
                since_ms, turn = moment[0], 0
            turn += record.kind is Kind.RESUMED and not record.by.startswith("wake:")
            turns[moment] = turn = max(turn, turns[moment])
    return turns


def _closing(logs: Iterable[Sequence[Record]]) -> set[str]:
    """Returns the messages that closed branches: they made the fork fire, or ended the token around it."""
    return {record.by for records in logs for record in records if record.kind is Kind.ENDED}


def _is_outlived(fired: Record, logs: Iterable[Sequence[Record]]) -> bool:
    """Tells whether a branch went on after the join had fired."""
    return any(not isinstance(records[-1].next, End) or records[-1].at_ms > fired.at_ms for records in logs if records)


def _shown(records: Sequence[Record], place: int) -> _Moment:
    """Returns when the record's change was shown, and by which message.

    For the end of a wait that is just before the next record, or before the step of that.
    """
    record = records[place]
    if record.kind is Kind.RESUMED and place + 1 < len(records):
        following = records[place + 1]
        return following.started_ms or following.at_ms, following.by
    return record.at_ms, record.by


def _sender(by: str, index: int) -> int:
    """Returns the index of the branch whose message this is; `index` if it is no branch's."""
    kind, _, rest = by.partition(":")
    number = rest.partition(":")[0].rpartition(".")[2]
    return int(number) if kind == "wake" and number.isdigit() else index
