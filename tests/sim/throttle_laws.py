"""The laws of named limits: never one step too many, none is left behind, and no permit is lost. By the logs alone."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from stepwell.engine.limits.throttles import ASKS, PERMITTED
from stepwell.engine.records import Kind, Record
from stepwell.engine.waits.aside import LIMIT
from stepwell.runtime.log.messages import Wake
from tests.sim.world import World

_FOREVER = 10**12
_KEEPS = {Kind.BEGAN, Kind.RECEIVED}  # records of the attempt that holds the permit


@dataclass(frozen=True, slots=True)
class _Claim:
    """A permit that a token asked for: since when it has it, and until when."""

    name: str
    who: str
    wake: tuple[str, str]  # the run, and the id of the message that has it look again
    since: int = _FOREVER
    until: int = _FOREVER


def laws_of_throttles(world: World) -> Iterator[str]:
    """Once the last message is gone. Raises nothing; tells what is broken."""
    moves: dict[str, list[tuple[int, int, str]]] = defaultdict(list)
    for claim in _claims(world):
        if claim.until == _FOREVER:
            yield f"throttle: {claim.who} {'waits for' if claim.since == _FOREVER else 'still has'} {claim.name}"
        if claim.since < _FOREVER:
            moves[claim.name] += [(claim.since, 1, claim.who), (claim.until, -1, claim.who)]
    for name, changes in moves.items():
        at_once = 0
        for _, change, who in sorted(changes):
            at_once += change
            if at_once > _most(world, name):
                yield f"throttle: {who} makes {at_once} steps under {name} at once"
    if not world.seen.crashes:  # else a late worker may have left a claim behind, which the next one finds
        for kind, notes in world.memory._notes.items():
            if notes and kind.startswith(("permits:@", "pace:@")) and set(notes) != {"due"}:
                yield f"throttle: everything has ended, and {kind} has {sorted(notes)}"


def laws_of_quiet_throttles(world: World, under_way: dict[str, set[str]]) -> Iterator[str]:
    """When nothing is due: who waits for a permit waits for a step. `under_way`: ids of messages by run."""
    live: Counter[str] = Counter()
    waiting = []
    for claim in _claims(world):
        run_id, wake = claim.wake
        if claim.until < _FOREVER:
            continue
        if claim.since < _FOREVER or wake in under_way.get(run_id, set()):
            live[claim.name] += 1  # or its turn has not come
        else:
            waiting.append(claim)
    for claim in waiting:
        if live[claim.name] < _most(world, claim.name):
            yield f"law 5: {claim.who} waits for {claim.name}, which {live[claim.name]} steps have"


def laws_of_resting_throttles(world: World, under_way: dict[str, set[str]]) -> Iterator[str]:
    """Amid a pause, when nothing is due: who rests has left its permit to others. `under_way`: as above."""
    for claim in _claims(world):
        if claim.since < claim.until == _FOREVER and not under_way.get(claim.wake[0]):
            yield f"throttle: {claim.who} rests with {claim.name}"


def _claims(world: World) -> Iterator[_Claim]:
    for view in world.runs():
        order = view.seen.order
        for token, log in view.logs.look().records.items():
            yield from _claims_of(view.run_id, token, log, {record.slot: order[token, record.slot] for record in log})


def _claims_of(run_id: str, token: str, log: list[Record], order: dict[int, int]) -> Iterator[_Claim]:
    asked: Record | None = None
    since = _FOREVER
    for record in log:
        is_asked = record.parked is not None and record.parked.kind == LIMIT and ASKS not in record.rules
        came = record.resumption.kind if record.resumption else ""
        if asked is not None and record.kind is Kind.RESUMED and came == PERMITTED:
            since = order[record.slot]
        elif asked is not None and record.kind not in _KEEPS and record.kind is not Kind.RESUMED:
            yield _claim(run_id, token, asked, since, order[record.slot])
            asked = None
        if is_asked:
            asked, since = record, _FOREVER
    if asked is not None:
        yield _claim(run_id, token, asked, since, _FOREVER)


def _claim(run_id: str, token: str, asked: Record, since: int, until: int) -> _Claim:
    data = asked.parked.data if asked.parked else {}
    name = "/".join(data[part] for part in ("limit", "key") if part in data)
    return _Claim(name, f"{run_id} {token}", (run_id, Wake(run_id, asked.slot, token).id), since, until)


def _most(world: World, name: str) -> int:
    limit = world.program.limits.get(name.partition("/")[0])
    return _FOREVER if limit is None or limit.concurrency is None else limit.concurrency
