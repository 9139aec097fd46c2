"""The laws of limits: never one run too many, none is left behind, and no permit is lost. By the logs alone."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from stepwell.engine.limits.permits import WHO
from stepwell.engine.limits.throttles import ASKS, FREES, PERMITTED
from stepwell.engine.records import ROOT, End, Kind, Record
from stepwell.runtime.log.messages import Wake
from tests.sim.gather_laws import is_left_to_the_sweeper
from tests.sim.world import World

_BEFORE = frozenset({Kind.GATHERED, Kind.STARTED, Kind.REDRIVEN})


def laws_of_limits(world: World) -> Iterator[str]:
    """Once the last message is gone. Raises nothing; tells what is broken."""
    moves: dict[str, list[tuple[int, int, str]]] = defaultdict(list)  # by workflow: when, one more or less, which run
    for view in _limited(world):
        moves[view.program.graph.name] += _moves(view)
        yield from _going_on(view)
        for record in _begun(view)[1:]:
            if record.kind is Kind.ENDED and record.who == WHO:
                yield f"concurrency: {view.run_id} was cancelled for its limit in slot {record.slot}, under way"
    for workflow, changes in moves.items():
        under_way = 0
        for _, change, run_id in sorted(changes):
            under_way += change
            if under_way > _most(world, workflow):
                yield f"concurrency: {run_id} makes {under_way} runs of {workflow} at once"
    if not world.seen.crashes:  # else a late worker may have left one behind, which the next run finds
        yield from _left(world)


def _moves(view: World) -> Iterator[tuple[int, int, str]]:
    """When it takes a permit, and when it gives one back. A run of one record comes and goes."""
    log, order = _begun(view), view.seen.order
    holds = False
    for record in log if log and log[0].kind is not Kind.ENDED else ():
        before, holds = holds, _holds_after(record, holds or record is log[0])
        if before is not holds:
            yield order[ROOT, record.slot], 1 if holds else -1, view.run_id


def _holds_after(record: Record, holds: bool) -> bool:
    """Whether the run has a permit once this is its last record; `holds`: whether it had one."""
    if isinstance(record.next, End) or FREES in record.rules:
        return False
    came = record.resumption
    return holds or (came is not None and came.kind == PERMITTED)


_WITHOUT = frozenset({Kind.WAITING, Kind.RECEIVED, Kind.RESUMED, Kind.ENDED})  # records of a run without a permit


def _going_on(view: World) -> Iterator[str]:
    """A run that has given back its permit does nothing before it has another."""
    log = _begun(view)
    holds = bool(log)
    for record in log:
        if not holds and (record.kind not in _WITHOUT or (record.kind is Kind.WAITING and ASKS not in record.rules)):
            yield f"concurrency: {view.run_id} goes on in slot {record.slot} without a permit"
        holds = _holds_after(record, holds)


def _left(world: World) -> Iterator[str]:
    for kind, notes in world.memory._notes.items():
        is_of_runs = kind.startswith(("permits:", "pace:")) and "@" not in kind
        if notes and is_of_runs and set(notes) != {"due"}:
            yield f"concurrency: everything has ended, and {kind} has {sorted(notes)}"


def laws_of_quiet_limits(world: World, under_way: dict[str, set[str]]) -> Iterator[str]:
    """When nothing is due: who waits for a permit waits for a run. `under_way`: ids of messages by run."""
    live: Counter[str] = Counter()
    waiting = []
    for view in _limited(world):
        log, before = _begun(view), _root(view)
        wakes = {Wake(view.run_id, slot).id for slot in range(-1, len(before) + 1)} | {one.by for one in before}
        is_woken = bool(wakes & under_way.get(view.run_id, set()))
        asks = bool(log) and ASKS in log[-1].rules
        if _has_permit(log) or (is_woken and (asks or not log)) or _rests_with_permit(view, before):
            live[view.program.graph.name] += 1  # or its machine's clock says that its turn has not come
        elif not _is_paused(view) and (asks or (not log and _asks_as_it_begins(view, before))):
            waiting.append(view)
    for view in waiting:
        workflow = view.program.graph.name
        if live[workflow] < _most(world, workflow):
            yield f"law 5: {view.run_id} waits for a permit, and {live[workflow]} runs of {workflow} are under way"


def _rests_with_permit(view: World, log: list[Record]) -> bool:
    """Whether a run had been let in when it was paused: its first step might have been under way.

    One that is not redriven was taken up before the pause. Until then, a paused run gives its permit back.
    """
    is_in = _is_paused(view) and view.run_id in view.taken_up
    is_redriven = bool(log) and log[-1].kind is Kind.REDRIVEN
    holders = (view.memory._notes[kind] for kind in list(view.memory._notes) if kind.startswith("permits:"))
    return (is_redriven or is_in) and any(view.run_id in body for notes in holders for body in notes.values())


def _is_paused(view: World) -> bool:
    header = view.memory._runs.get(view.run_id)
    return header is not None and header.paused_ms > 0


def _asks_as_it_begins(view: World, before: list[Record]) -> bool:
    """Whether a run that has not begun waits for its permit, and not for starts. One without a start never asks."""
    return before[-1].kind is not Kind.GATHERED if before else not is_left_to_the_sweeper(view)


def _has_permit(log: list[Record]) -> bool:
    holds = bool(log)
    for record in log:
        holds = _holds_after(record, holds)
    return holds


def _limited(world: World) -> Iterator[World]:
    return (view for view in world.runs() if view.program.graph.concurrency is not None)


def _most(world: World, workflow: str) -> int:
    limit = world.programs[workflow].graph.concurrency
    return limit.limit if limit else 0


def _begun(view: World) -> list[Record]:
    """Its log from its first step on: without the starts that it gathered, and the mark of a redrive."""
    return [record for record in _root(view) if record.kind not in _BEFORE]


def _root(view: World) -> list[Record]:
    return view.logs.look().records.get(ROOT, [])
