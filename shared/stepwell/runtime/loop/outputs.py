"""Writes live output, numbering each piece after the last, so that readers miss none."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Sequence
from itertools import count
from threading import Lock

from stepwell.definition.graph import Json
from stepwell.engine.actions import RunStep
from stepwell.errors import Conflict, PortError
from stepwell.limits import HOUR_MS, MINUTE_MS, OUTPUT_PENDING
from stepwell.runtime.log.standing import Standing
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.ports import Clock, Event, Mailbox
from stepwell.runtime.steps.output import named, topic_of
from stepwell.values import dataclass

_KEPT_MS = HOUR_MS + 5 * MINUTE_MS  # an hour, and more in case clocks differ: a reader's last piece is still there
_SURE_MS = HOUR_MS - 10 * MINUTE_MS  # how long a process relies on the last piece that it knows
_RUNS_KNOWN = 1_000
_logger = logging.getLogger("stepwell.worker")


@dataclass(frozen=True, slots=True)
class _End:
    """The last known piece of a run's output."""

    number: int = -1
    at_ms: int = 0


class Outputs:
    """Numbers the output of runs. Each piece follows one that its writer has seen, so no piece hides from a cursor.

      writer A   ── 0 ── 1 ─────────── 2 taken: look ── 3 ──
      writer B   ─────────── 2 ─────────────────────────────     a reader at 2 gets 3, whatever A's clock says

    A reader of piece n has not missed a lower number: that would have to be free while n is there, and a number is
    written only after the one before it. Safe to use from many threads.
    """

    def __init__(self, mailbox: Mailbox, clock: Clock) -> None:
        self._mailbox, self._clock = mailbox, clock
        self._ends: OrderedDict[str, _End] = OrderedDict()  # by run
        self._lock = Lock()

    def of(self, at: Standing, action: RunStep) -> Output:
        """Returns the output of one attempt of a step."""
        return Output(self, at.run_id, at.token.id, action)

    def emit(self, run_id: str, piece: dict[str, Json]) -> None:
        """Writes a piece. Reads first if another process wrote the last one. One process writes one at a time.

        A piece that cannot be written is dropped, with a warning: the step goes on without readers.
        """
        try:
            with self._lock:
                run_now(self.put(run_id, piece))
        except (PortError, Conflict) as error:
            _logger.warning("output of %s is lost: %s", piece["step"], error)

    async def put(self, run_id: str, piece: dict[str, Json]) -> None:
        """Writes a piece after the last one. Raises PortError, and Conflict if there are too many."""
        end = self._ends.get(run_id, _End())
        if end.at_ms + _SURE_MS < self._clock.now_ms():
            end = _last(await self._after(run_id, _End()), _End())
        while True:
            following = _End(end.number + 1, max(self._clock.now_ms(), end.at_ms))
            event = Event(topic_of(run_id), named(following.number), piece, following.at_ms, following.at_ms + _KEPT_MS)
            if await self._mailbox.put_event(event, OUTPUT_PENDING):
                break
            others = await self._after(run_id, end)
            if any((one.id, one.at_ms, one.payload) == (event.id, event.at_ms, piece) for one in others):
                break  # written by this very call, whose first answer was lost
            end = _last(others, following)
        self._note(run_id, following)

    async def _after(self, run_id: str, end: _End) -> Sequence[Event]:
        """Returns the pieces that are stored after this one, however old they are."""
        return await self._mailbox.pending_events(topic_of(run_id), 0, named(end.number) if end.number >= 0 else "")

    def _note(self, run_id: str, end: _End) -> None:
        self._ends[run_id] = end
        self._ends.move_to_end(run_id)
        if len(self._ends) > _RUNS_KNOWN:
            self._ends.popitem(last=False)


class Output:
    """The output of one attempt of a step. Safe to use from many threads."""

    def __init__(self, outputs: Outputs, run_id: str, token: str, action: RunStep) -> None:
        self._outputs, self.run_id, self._token, self._numbers = outputs, run_id, token, count()
        self._step, self._attempt = action.node, action.attempt

    def emit(self, data: Json) -> None:
        """Writes a piece for live readers."""
        self._outputs.emit(self.run_id, self.piece(data))

    def piece(self, data: Json) -> dict[str, Json]:
        """Returns the next piece as it is stored. `number`: its number within the attempt."""
        return {"token": self._token, "step": self._step, "attempt": self._attempt,
                "number": next(self._numbers), "data": data}  # fmt: skip


def _last(found: Sequence[Event], known: _End) -> _End:
    return max((_End(int(one.id), one.at_ms) for one in found), key=lambda end: end.number, default=known)
