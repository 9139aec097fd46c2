"""The door: the one place that appends to a log.

input ── decide ── Write ── append ── none there, or mine ── the token after it
            ▲                 └────── another's: the token after that, and decide again
            └─────────────────────────────┘      a mark: the run's header, and decide again
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

from stepwell.engine.actions import Action, Drop, Write
from stepwell.engine.copying import quick
from stepwell.engine.decide import decide
from stepwell.engine.inputs import Input, WritesRefused
from stepwell.engine.records import Record
from stepwell.engine.transact import Refusal
from stepwell.errors import LeaseLost
from stepwell.runtime.log.action_log import log_written
from stepwell.runtime.log.logbook import Logbook
from stepwell.runtime.log.standing import Standing
from stepwell.runtime.ports import EventTaken, Marked

_Found: TypeAlias = Record | Refusal | EventTaken | Marked | None


class Budget(Protocol):
    """How long whoever works on a message may still go on."""

    def left_ms(self) -> int | None:
        """The time left for steps; None where nobody counts."""

    def holds(self) -> bool:
        """Whether the message is still this worker's. Its lease may have run out while it was held up."""


class Unlimited:
    """The budget of work that nobody stops or takes over."""

    def left_ms(self) -> int | None:
        return None

    def holds(self) -> bool:
        return True


UNLIMITED = Unlimited()


@quick
@dataclass(frozen=True)
class Answer:
    """What became of an input: the token as it stands now, and what was decided last."""

    at: Standing
    action: Action
    is_mine: bool = False  # the record stands, written now or by an earlier delivery of the same message
    is_new: bool = False  # it was written now
    is_taken: bool = False  # the event that was offered has been consumed by another


@dataclass(frozen=True, slots=True)
class Found:
    """An input that performing an effect has found. None: the token was moved before, and wants pushing on."""

    at: Standing
    given: Input | None
    by: str = ""  # under which it is put; "": under the same as the effect


class Door:
    """Puts inputs to tokens."""

    def __init__(self, logbook: Logbook, jitter: Callable[[], float]) -> None:
        self._logbook, self._jitter = logbook, jitter

    def decide(self, at: Standing, given: Input, by: str) -> Action:
        """What the token would do about the input now. Nothing is written."""
        return decide(self._logbook.moment(at, by, self._jitter()), at.token, given)

    async def put(
        self, at: Standing, given: Input, by: str, budget: Budget = UNLIMITED, *, transacts: bool = True
    ) -> Answer:
        """Decides until what is decided stands, or is nothing to write.

        `transacts`: whether this worker may write to the user's tables; else the Write is answered, not written.
        Raises LeaseLost when the message has become another worker's, PortError when the store did not answer.
        """
        while True:
            action = self.decide(at, given, by)
            if not isinstance(action, Write) or (action.also and not transacts):
                return Answer(at, action)
            if not budget.holds():
                raise LeaseLost(f"the lease of {by} ran out before its record {action.record.slot}")
            at, found = await self._appended(at, action)
            match found:
                case None:
                    log_written(at, action.record)
                    return Answer(at.after(action.record), action, is_mine=True, is_new=True)
                case Refusal():
                    given = WritesRefused(action.also, found, at.token.slot)
                case EventTaken():
                    return Answer(at, Drop(), is_taken=True)
                case Record():
                    at = at.after(found)
                    if found.by == by:
                        return Answer(at, action, is_mine=True)

    async def _appended(self, at: Standing, action: Write) -> tuple[Standing, _Found]:
        """What stands in the record's way. A mark does until the header was looked at, and it was decided again."""
        if at.is_marked or at.run.is_paused:
            at = await self._logbook.behind_mark(at, action.record)
        found = await self._logbook.append(at, action)
        if isinstance(found, Marked):
            at = replace(await self._logbook.refreshed(at), is_marked=True)
        return at, found
