"""Replays: each log of a durable function, from each of its prefixes, by a process that knows nothing.

The function must then await what the log has next, or end as the log says; from the whole log, so must its state.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from stepwell.engine.durable.journal import LOST
from stepwell.engine.durable.tasks import named
from stepwell.engine.durable.turns import Completed, ContinueAs, Failed, Suspended, Together, Turn
from stepwell.engine.records import ROOT, End, Goto, Kind, Record
from stepwell.engine.waits.aside import CODE, LIMIT
from stepwell.memory.blobs import MemoryBlobs
from stepwell.runtime.durable.sessions import Sessions
from stepwell.runtime.log.logbook import Logbook
from stepwell.runtime.log.standing import Standing
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.ports import Ports
from tests.sim.fn_code import Code, InTurn
from tests.sim.fn_shapes import kind_of
from tests.sim.fork_laws import Family
from tests.sim.tree import ancestry, is_of_tasks
from tests.sim.world import World

MOST = 12  # prefixes of one run that are replayed


def laws_of_replays(world: World, logs: dict[str, list[Record]]) -> Iterator[str]:
    """Of one run of a durable function."""
    if not world.program.graph.replays:
        return
    prefixes = [(token, count) for token, log in logs.items() for count in range(len(log)) if _has_parent(token, logs)]
    chosen = prefixes if len(prefixes) <= MOST else random.Random(len(prefixes)).sample(prefixes, MOST)
    clock: Any = None  # nothing that is read here has a time
    store = world.memory
    ports = Ports(store, store, store, store, store, store, clock, clock, MemoryBlobs(), world.parts.ports.clock)
    logbook = Logbook(ports, world.parts.catalog, forks_kept=0)
    begun, family = run_now(logbook.load(world.run_id)), Family(world, logs)
    for token, count in chosen:
        following = _following(logs[token], count)
        if following is None or begun is None:
            continue
        at = replace(begun, token=family.token(token, count))
        turns: list[Turn] = []
        for version in (2, 1):
            turns.append(_replayed(world, logbook, at, version))
            if _fits(at, turns[-1], following):
                break
        else:
            found = " or ".join(sorted({str(turn.result)[:200] for turn in turns}))
            yield f"replay: {world.run_id} {token} after {count} records: {found}; its log has {following.kind} next"


def _has_parent(token: str, logs: dict[str, list[Record]]) -> bool:
    """Whether its function has not begun anew since. What tasks had begun before is nobody's then."""
    place = next(iter([*ancestry(token)][-1:]), None)
    if place is None or not is_of_tasks(logs[ROOT][place[1]]):
        return True
    return all(record.kind is not Kind.RETURNED or isinstance(record.next, End) for record in logs[ROOT][place[1] :])


def _following(log: Sequence[Record], count: int) -> Record | None:
    """What begins in this log's next record; None where it goes on with what was begun, or was written by others."""
    before, record = next((one for one in reversed(log[:count]) if not _is_aside(log, one)), None), log[count]
    is_open = before is not None and (before.kind in {Kind.WAITING, Kind.RECEIVED, Kind.BEGAN} or _is_retried(before))
    is_open = is_open and not _has_tasks(log[:count])
    if is_open or record.kind not in {Kind.STEP, Kind.BEGAN, Kind.WAITING, Kind.MOVED, Kind.RETURNED}:
        return None
    return None if LOST in record.rules or _is_aside(log, record) else record


def _is_aside(log: Sequence[Record], record: Record) -> bool:
    """Whether it is of a wait for other code, which is no operation."""
    waits = [one for one in log[: record.slot + 1] if one.kind is Kind.WAITING]
    of_wait = record.kind in {Kind.WAITING, Kind.RECEIVED, Kind.RESUMED}
    return of_wait and bool(waits) and waits[-1].parked is not None and waits[-1].parked.kind in {CODE, LIMIT}


def _has_tasks(log: Sequence[Record]) -> bool:
    """Whether the function's tasks wait here, so that it takes a turn after each record."""
    lived = [one for one in log if not _is_aside(log, one)]
    of_wait = [one for one in lived if one.kind in {Kind.WAITING, Kind.RESUMED}]
    stands = bool(of_wait) and lived[-1].kind in {Kind.WAITING, Kind.RECEIVED, Kind.RESUMED}
    return stands and of_wait[-1].parked is not None and of_wait[-1].parked.of_tasks


def _is_retried(record: Record) -> bool:
    return record.kind is Kind.STEP and type(record.next).__name__ == "RetryAt"


def _replayed(world: World, logbook: Logbook, at: Standing, version: int) -> Turn:
    code = Code([one.graph.name for one in world.programs.values() if one.graph.replays])
    code.version = version
    turn = run_now(Sessions(logbook, code, kept=0, threads=InTurn()).asked(at)).turn
    if turn is None:
        raise AssertionError(f"{at.token.id} has no turn")
    return turn


def _fits(at: Standing, turn: Turn, record: Record) -> bool:
    """Whether this turn is what made the record."""
    is_all = record.kind in {Kind.STEP, Kind.BEGAN} and (record.error is not None or record.kind is Kind.BEGAN)
    if at.token.branch is None and not is_all and dict(record.writes or {}) != {**turn.writes}:
        return False
    match turn.result:
        case Completed() | Failed() | ContinueAs() as result if at.token.cleaning is not None:
            end = End(at.token.cleaning.status)
            error = result.failure if isinstance(result, Failed) and not result.is_cancel else None
            return (record.kind, record.next, record.output, record.error) == (Kind.RETURNED, end, None, error)
        case Together(begun, cancelled):
            places = [named(place) for place in cancelled]
            parked = record.parked
            return parked is not None and parked.of_tasks and (
                parked.data["begun"] == [str(one) for one in begun] and list(parked.cancelled) == places)  # fmt: skip
        case Suspended(asked, slot):
            return slot < 0 and (asked.kind, asked.name) == (kind_of(record), record.node)
        case Completed(value):
            return (
                record.kind is Kind.RETURNED
                and isinstance(record.next, End)
                and (value, None) == (record.output, record.error)
            )
        case Failed(failure):
            return record.kind is Kind.RETURNED and record.error is not None and failure.type == record.error.type
        case ContinueAs(given):
            return record.kind is Kind.RETURNED and isinstance(record.next, Goto) and given == record.output
    return False
