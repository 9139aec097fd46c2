"""Tells why a completed run is not redriven although branches of it failed, and from where they can run again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stepwell.definition.graph import Graph
from stepwell.definition.text import counted
from stepwell.engine.durable.tasks import names_of, place_of
from stepwell.engine.forks.join import failures_in
from stepwell.engine.records import ENDED, End, Fork, Kind, Record, Status
from stepwell.engine.run_forks import kept_before
from stepwell.errors import Conflict
from stepwell.values import dataclass


@dataclass(frozen=True, slots=True)
class _Tolerated:
    """A fork of which branches failed, and which completed all the same."""

    slot: int
    name: str
    failed: int


def check_completed(graph: Graph, run_id: str, records: Sequence[Record]) -> None:
    """Raises Conflict for a completed run with failed branches; another one is refused for what it is."""
    following = records[-1].next
    if not isinstance(following, End) or following.status is not Status.COMPLETED:
        return
    found = sorted(_tolerated(graph, records), key=lambda one: one.slot)
    if not found:
        return
    failed = ", ".join(f"{_branches(one.failed)} of {one.name}" for one in found)
    was = "it was" if sum(one.failed for one in found) == 1 else "they were"
    hint, first = "rerun starts it anew", found[0]
    if _can_fork(run_id, records, first.slot):
        hint = f'POST /runs/{{id}}/fork with "at": {first.slot} runs {first.name} and all its branches again; {hint}'
    raise Conflict(f"the run completed: {failed} failed, and {was} tolerated", code="completed", hint=hint)


def _branches(count: int) -> str:
    return counted(count, "branch") if count == 1 else f"{count} branches"


def _tolerated(graph: Graph, records: Sequence[Record]) -> Iterator[_Tolerated]:
    """Yields the forks that joined although branches of them failed."""
    slot = 0
    for record in records:
        if isinstance(record.next, Fork):
            slot = record.slot
        if record.kind is Kind.JOINED and record.error is None and record.tally is not None and record.tally.failed:
            yield _Tolerated(slot, graph.seen_as(records[slot].node or graph.start), record.tally.failed)
        elif record.resumption is not None and record.resumption.kind == ENDED and record.error is None:
            began, index = place_of(record.resumption.part)  # an operation of a function's tasks
            if failures := failures_in(record.output):
                yield _Tolerated(began, names_of(records[began])[index], len(failures))


def _can_fork(run_id: str, records: Sequence[Record], slot: int) -> bool:
    """Tells whether the run can be forked there: not within a lock, or amid another fork."""
    try:
        kept_before(run_id, records, slot)
    except Conflict:
        return False
    return True
