"""Records of a durable function's tasks: what they begin and wait for, and the ends of their operations."""

from __future__ import annotations

from collections.abc import Sequence

from stepwell.definition.graph import Json
from stepwell.engine.actions import Action, Drop, Rest, Write
from stepwell.engine.durable.finished import taken_by
from stepwell.engine.durable.referring import output_at
from stepwell.engine.durable.tasks import named
from stepwell.engine.durable.turns import Asked, Together, Turn, checksum_of
from stepwell.engine.forks.join import Arrival
from stepwell.engine.names import Moment
from stepwell.engine.records import ENDED, TASKS, Arm, Fork, Group, Kind, Parked, Record, Resumption, Tally
from stepwell.engine.table import Phase
from stepwell.engine.token import Token
from stepwell.engine.waits import several
from stepwell.engine.writing import record


def waiting(moment: Moment, token: Token, turn: Turn, result: Together) -> Action:
    """Returns the record of what the tasks begin, cancel and wait for; rests if a record says all of it."""
    waits = token.phase is Phase.WAITING_AT_FAN_IN and token.parked is not None
    had_ms = token.parked.until_ms if waits and token.parked else None
    is_sooner = result.due_ms is not None and (had_ms is None or result.due_ms < had_ms)
    if waits and not (result.begun or result.cancelled or is_sooner or turn.answers):
        return Rest()
    parked = Parked(
        TASKS,
        (Arm(TASKS),),
        result.due_ms,
        timer_arm=0,
        data={"begun": [str(one) for one in result.begun], **_tasks(result.by), **_waits(result.begun)},
        since_ms=moment.now_ms,
        of_function=True,
        of_tasks=True,
        cancelled=tuple(named(place) for place in result.cancelled),
    )
    count = len(result.begun)
    taken = _taken(token, result)
    fork = Fork((Group("", moment.graph.start, count, is_apart=True),), TASKS, taken=taken) if count else None
    return Write(record(moment, token, Kind.WAITING, TASKS, writes=turn.writes, parked=parked, next=fork,
                        arguments=checksum_of(result.begun)))  # fmt: skip


def _tasks(by: Sequence[str]) -> dict[str, Json]:
    return {"by": list(by)} if any(by) else {}


def _taken(token: Token, result: Together) -> tuple[tuple[int, str], ...]:
    """Returns the operations whose results the run that failed has, with the places of these."""
    if not token.finished:
        return ()
    asked = enumerate(zip(result.by, result.begun, strict=True))
    found = ((index, taken_by(token, by, one)) for index, (by, one) in asked)
    return tuple((index, place) for index, place in found if place)


def _waits(begun: Sequence[Asked]) -> dict[str, Json]:
    """Tells which of the operations are waits: the index, the kind, and the time limit of each."""
    found = [(index, outlook_of(one)) for index, one in enumerate(begun)]
    waits: list[Json] = [[index, *outlook] for index, outlook in found if outlook is not None]
    return {"waits": waits} if waits else {}


def outlook_of(asked: Asked) -> tuple[str, int | None] | None:
    """Returns the kind and the time limit of an operation that waits for the outside world; None for all others."""
    if asked.call is not None:
        return asked.call.kind, asked.call.timeout_ms
    wait = asked.wait
    if wait is None:
        return None
    limits = [one.timeout_ms for one in (wait, *wait.arms) if one.timeout_ms is not None]
    return several.parked_as(wait.arms) if wait.arms else wait.kind, min(limits, default=None)


def ended(moment: Moment, token: Token, slot: int, arrival: Arrival) -> Action:
    """Records the end of an operation; drops that of one which was cancelled, or is recorded already."""
    begun = token.tasks.get(slot)
    if begun is None or arrival.index not in begun.open:
        return Drop()
    is_last = token.open_tasks == 1
    kind = Kind.RESUMED if is_last and token.phase is Phase.WAITING_AT_FAN_IN else Kind.RECEIVED
    at_ms = max(moment.now_ms, arrival.at_ms, token.last_ms)
    resumption = Resumption(ENDED, part=named((slot, arrival.index)))
    tally = Tally(1, int(arrival.error is not None), calls=arrival.calls)
    output = arrival.output if arrival.error is None else None
    made = Record(token.next_slot, kind, moment.by, at_ms, token.node,
                  output=output, output_at=output_at(arrival), error=arrival.error,
                  resumption=resumption, tally=tally)  # fmt: skip
    return Write(made)
