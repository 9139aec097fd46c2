"""What a fork wrote to show what its branches wait for: the run's header, and the marks of its pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stepwell.engine.forks import branch_id
from stepwell.engine.lines import awaited
from stepwell.engine.marks import is_in_lines, is_one_set
from stepwell.engine.records import End, Fork, Kind, Record

_PARKS = frozenset({Kind.WAITING, Kind.RECEIVED})


def shown_writes(fork: Fork, name: str, page: int, logs: Mapping[str, Sequence[Record]]) -> int:
    """Counts the changes of the header because all branches of this page waited, or no longer did, and its marks.

    A page of a wide fork is taken for the fork: all pages are alike. The marks of branches are counted with these.
    """
    indexes = {branch_id(name, index): index for index in fork.page_indexes(page)}
    lived = sorted((*_shown(records, place, indexes[token]), indexes[token], place)
                   for token, records in logs.items() for place in range(len(records)))  # fmt: skip
    waiting, ended, shows_wait, writes = set[int](), set[int](), False, 0
    has_marks, tells_page, tells_all = False, not is_one_set(fork), not is_in_lines(fork)
    for _, _, index, place in lived:
        record = logs[branch_id(name, index)][place]
        parks, ends = record.kind in _PARKS, isinstance(record.next, End)
        was_waiting = index in waiting
        waiting.discard(index)
        if ends:
            ended.add(index)
        elif parks:
            waiting.add(index)
        has_marks |= parks
        live = {one for one in indexes.values() if one not in ended and awaited(fork, one).is_over(ended)}
        all_wait = bool(live) and live <= waiting
        if all_wait is not shows_wait and live:
            shows_wait, writes = all_wait, writes + 1
        if tells_page:
            goes_on = was_waiting and not parks and not ends
            writes += parks or (tells_all and (goes_on or (ends and has_marks and all_wait)))
    return writes


def _shown(records: Sequence[Record], place: int, index: int) -> tuple[int, int]:
    """When it was shown what this record changed, and the branch whose message had it done.

    Whoever goes on after a wait does so, before the next record, or the step of that. Branches that begin when others
    end have the message of those.
    """
    record = records[place]
    if record.kind is Kind.RESUMED and place + 1 < len(records):
        record = records[place + 1]
        return record.started_ms or record.at_ms, _sender(record, index)
    return record.at_ms, _sender(record, index)


def _sender(record: Record, index: int) -> int:
    kind, _, rest = record.by.partition(":")
    number = rest.partition(":")[0].rpartition(".")[2]
    return int(number) if kind == "wake" and number.isdigit() else index
