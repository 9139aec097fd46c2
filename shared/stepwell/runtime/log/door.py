"""The door: the one place that appends to a log.

input ── decide ── Write ── append ── none there, or mine ── the token after it
   ▲        │        └────── another's: the token after that, and decide again
   └────────┼────────────────────┘      a mark: the run's header, and decide again
     └── or it waits in the token's open batch for those that follow it: `durability: batch`
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol, TypeAlias

from stepwell.engine.actions import Action, Drop, Write
from stepwell.engine.batching import waits
from stepwell.engine.copying import changed, quick
from stepwell.engine.decide import decide
from stepwell.engine.durable.transact import Refusal
from stepwell.engine.fold import fold
from stepwell.engine.inputs import Input, WritesRefused
from stepwell.engine.pushing import pushes
from stepwell.engine.records import Record
from stepwell.errors import LeaseLost
from stepwell.runtime.log.action_log import log_written
from stepwell.runtime.log.logbook import Logbook
from stepwell.runtime.log.standing import Standing
from stepwell.runtime.ports import EventTaken, Marked
from stepwell.values import dataclass

_InTheWay: TypeAlias = Sequence[Record] | Refusal | EventTaken | Marked | None


class Budget(Protocol):
    """How long the worker of a message may still go on."""

    def left_ms(self) -> int | None:
        """Returns the milliseconds left for steps; None if there is no limit."""

    def whole_ms(self) -> int | None:
        """Returns the milliseconds that there were in the beginning; None if there is no limit."""

    def holds(self) -> bool:
        """Tells whether the message still belongs to this worker. Its lease may have run out during a delay."""

    def is_first(self) -> bool:
        """Tells whether this is the first delivery. The worker of an earlier one may have died of a step."""


class Unlimited:
    """The budget of work that nobody stops or takes over. `deliveries`: of its message, this one counted."""

    _deliveries = 1  # of a subclass that does not say

    def __init__(self, deliveries: int = 1) -> None:
        self._deliveries = deliveries

    def left_ms(self) -> int | None:
        return None

    def whole_ms(self) -> int | None:
        return None

    def holds(self) -> bool:
        return True

    def is_first(self) -> bool:
        return self._deliveries == 1


UNLIMITED = Unlimited()


def needed_ms(budget: Budget, limit_ms: int) -> int:
    """Returns how many milliseconds must be left to begin a step with this time limit.

    If a whole invocation is shorter than that, four fifths of one are enough: else each step would need its own.
    """
    whole_ms = budget.whole_ms()
    return limit_ms if whole_ms is None or limit_ms <= whole_ms else whole_ms * 4 // 5


@quick
@dataclass(frozen=True)
class Answer:
    """The result of an input: the token as it is now, and the last decision."""

    at: Standing
    action: Action
    is_mine: bool = False  # the record is in the log, written now or by an earlier delivery
    is_new: bool = False  # it was written by this call
    is_taken: bool = False  # another token consumed the event


@dataclass(frozen=True, slots=True)
class FoundInput:
    """An input that performing an effect has found.

    None: the token was moved before, and has to be pushed on.
    """

    at: Standing
    given: Input | None
    by: str = ""  # the actor that puts it; "": the effect's own


class Door:
    """Passes inputs to tokens."""

    def __init__(self, logbook: Logbook, jitter: Callable[[], float]) -> None:
        self._logbook, self._jitter = logbook, jitter

    def decide(self, at: Standing, given: Input, by: str) -> Action:
        """Returns what the token would do about the input now. Writes nothing."""
        return decide(self._logbook.moment(at, by, self._jitter()), at.token, given)

    async def put_once(self, at: Standing, given: Input, by: str, budget: Budget = UNLIMITED) -> Answer:
        """Puts an input, unless an earlier delivery of its message did."""
        if pushes(at.token, by):
            return Answer(at, Drop(), is_mine=True)
        return await self.put(at, given, by, budget)

    async def put(
        self, at: Standing, given: Input, by: str, budget: Budget = UNLIMITED, *, transacts: bool = True
    ) -> Answer:
        """Decides on the input and appends, until the record is in the log or the open batch, or none is to be written.

        If another actor wrote first, the records in the open batch are lost, and the token is as the log has it.
        `transacts`: whether this worker may write to the user's tables; if not, such a Write is returned and not
        written. The same goes while the batch is open: a transaction has one record. Raises LeaseLost if another worker
        has the message now, PortError if the store did not answer.
        """
        while True:
            action = self.decide(at, given, by)
            if not isinstance(action, Write) or (action.also and (at.is_open or not transacts)):
                return Answer(at, action)
            records: Sequence[Record] = (action.record,)
            if at.batch is not None:
                if (before := _outrun(at, by) or _gathered(at, action)) is not None:
                    return before
                records = _together(at.open_records, action.record)
            at, found = await self._appended(at, action, records, by, budget)
            match found:
                case None:
                    return Answer(_written(at, at.after(records[-1]), records), action, is_mine=True, is_new=True)
                case Refusal():
                    given = WritesRefused(action.also, found, at.token.slot)
                case EventTaken():
                    return Answer(at, Drop(), is_taken=True)
                case [*there]:
                    at, answer = _behind(at, there, by, action)
                    if answer is not None:
                        return answer

    async def close(self, at: Standing, by: str, budget: Budget = UNLIMITED) -> Answer:
        """Appends the records of the token's open batch. `is_new`: nobody else moved the token."""
        answer: Answer | None = None
        while at.is_open and answer is None:
            records = _together(at.open_records[:-1], at.open_records[-1])
            at, found = await self._appended(at, Write(records[-1]), records, by, budget)
            if found is None:
                at = _written(at, changed(at, token=changed(at.token, last=records[-1])), records)
            elif isinstance(found, Sequence):
                at, answer = _behind(at, found, by, Drop())
        return answer or _outrun(at, by) or Answer(at, Drop(), is_mine=True, is_new=True)

    async def _appended(
        self, at: Standing, action: Write, records: Sequence[Record], by: str, budget: Budget
    ) -> tuple[Standing, _InTheWay]:
        """Appends the records. Returns what stands in their way, if anything does.

        A mark does, until the header was read and the input decided again.
        """
        if not budget.holds():
            raise LeaseLost(f"the lease of {by} ran out before its record {records[0].slot}")
        if at.is_marked or at.run.is_paused:
            at = await self._logbook.behind_mark(at, records)
        found = await self._logbook.append(at, action, records)
        if isinstance(found, Marked):
            at = replace(await self._logbook.refreshed(at), is_marked=True)
        return at, found


def _outrun(at: Standing, by: str) -> Answer | None:
    """Returns the answer if another actor wrote while the token's step ran and its batch was to be closed."""
    if at.batch is None or at.batch.lost is None:
        return None
    lost, at.batch.lost = at.batch.lost, None
    return Answer(lost, Drop(), is_mine=pushes(lost.token, by))


def _gathered(at: Standing, action: Write) -> Answer | None:
    """Adds the record to the open batch if it may wait there, and returns the answer; else None."""
    if at.batch is None or at.is_marked or at.run.is_paused or not at.batch.has_room(action.record):
        return None
    after = at.after(action.record)
    if not waits(at.graph, at.token, action, after.token):
        return None
    at.batch.add(at.token, action.record)
    return Answer(after, action, is_mine=True, is_new=True)


def _together(before: Sequence[Record], last: Record) -> Sequence[Record]:
    return (*before, changed(last, together=len(before) + 1)) if before else (last,)


def _written(at: Standing, after: Standing, records: Sequence[Record]) -> Standing:
    """Logs the records that were appended, clears the open batch, and returns the token after them."""
    for record in records:
        log_written(at, record)
    if at.batch is not None:
        at.batch.written(after.token)
    return after


def _behind(at: Standing, found: Sequence[Record], by: str, action: Action) -> tuple[Standing, Answer | None]:
    """Returns the token after the records that took its next slot. An answer of None means: decide again.

    The open batch is lost, with the results of its steps. But if the records are the beginning of that batch, then an
    append succeeded whose answer was lost: the rest of the batch still waits.
    """
    was_open = at.is_open
    if at.batch is not None and at.batch.token is not None and was_open:
        waited, count = at.batch.records, len(found)
        if [changed(record, together=0) for record in found] == list(waited[:count]):
            at.batch.written(fold(found, at.batch.token), waited[count:])
            return at if at.is_open else changed(at, token=at.batch.token), None
        at = changed(at, token=at.batch.token)
    for record in found:
        at = at.after(record)
    if at.batch is not None:
        at.batch.written(at.token)
    is_mine = pushes(at.token, by)
    if not is_mine and not was_open:
        return at, None
    return at, Answer(at, Drop() if was_open else action, is_mine=is_mine)
