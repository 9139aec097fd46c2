"""The laws of a cancelled durable function: it is told once, it may clean up, and its run ends cancelled in time.

That what follows is the clean-up's own, and no result of what was under way, the plain run tells.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stepwell.engine.records import ROOT, CleanUp, End, Failure, Fork, Kind, Record, Status
from stepwell.engine.writing import TERMINATED
from tests.sim.world import World


def laws_of_clean_ups(world: World, logs: dict[str, list[Record]]) -> Iterator[str]:
    """Of one run."""
    durable = world.program.graph.first.durable
    for token, log in logs.items():
        told = [(record, record.next) for record in log if isinstance(record.next, CleanUp)]
        if told and (token != ROOT or durable is None or not durable.cleanup_ms):
            yield f"functions: {world.run_id} {token} has no time to clean up, and is told to"
        if len(told) > 1:
            yield f"functions: {world.run_id} was told {len(told)} times that it is cancelled"
        for record, clean_up in told:
            yield from _of_one(world, log[record.slot + 1 :], clean_up)


def _of_one(world: World, later: Sequence[Record], clean_up: CleanUp) -> Iterator[str]:
    last = later[-1] if later else None
    if last is None or not isinstance(last.next, End):
        yield f"functions: {world.run_id} was cancelled and does not end"
        return
    error: Failure | None = last.next.error
    is_terminated = last.kind is Kind.ENDED and error is not None and error.type == TERMINATED
    if last.next.status is not (Status.FAILED if is_terminated else Status.CANCELLED):
        yield f"functions: {world.run_id} was cancelled, and ends {last.next.status} at slot {last.slot}"
    latest_ms = clean_up.until_ms + 2 * world.chances.skew_ms  # a worker's clock may be behind who cancelled, and ahead
    late = [record for record in later if record.at_ms > latest_ms and _begins(record, latest_ms)]
    if late:
        yield f"functions: {world.run_id} cleans up in slot {late[0].slot}, and its time was up"


def _begins(record: Record, latest_ms: int) -> bool:
    """Whether something is begun here. What was begun in time may end later, and so does the run then."""
    if record.kind is Kind.STEP:
        return record.started_ms > latest_ms
    return record.kind in {Kind.WAITING, Kind.BEGAN, Kind.RETURNED} or isinstance(record.next, Fork)
