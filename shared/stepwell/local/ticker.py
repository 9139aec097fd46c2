"""The ticker sends the messages of schedules at their times, as EventBridge Scheduler does on AWS.

The handler of a message notes it, so a new ticker knows what was missed. A schedule that is new, or has new times,
counts from the moment when the ticker first sees it. So does one whose noted time is still to come, because this
machine's clock was ahead then: else it would not fire before that time.
"""

from __future__ import annotations

from stepwell.runtime.assembly import Assembly
from stepwell.runtime.log.messages import Scheduled, to_json
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.ports import Lane
from stepwell.runtime.starts.schedules import FIRING, Firing, Known, due_ms, firing_text, next_ms, plan_of


class Ticker:
    """The ticker, for one thread. It may send a message again after a crash, which starts no second run."""

    def __init__(self, parts: Assembly) -> None:
        self._parts = parts
        self._sent_ms: dict[str, int] = {}  # the last sent time of each schedule

    def tick(self) -> None:
        """Sends the due messages."""
        now_ms = self._parts.ports.clock.now_ms()
        for known in self._all():
            schedule = known.schedule
            if known.last is None or known.last.plan != plan_of(schedule):
                self._begin(known, schedule.since_ms or now_ms)
                continue
            if known.last.at_ms > now_ms:
                self._begin(known, now_ms)
                continue
            for at_ms in due_ms(schedule, self._last_ms(known), now_ms):
                made = None if known.of_definition else schedule
                message = to_json(Scheduled(schedule.name, at_ms, made))
                run_now(self._parts.ports.queue.send(Lane.RESUME, message))
                self._sent_ms[schedule.name] = at_ms

    def next_due_ms(self) -> int | None:
        """Returns the next firing time; None if no schedule fires again."""
        times = [time_ms for known in self._all() for time_ms in next_ms(known, self._last_ms(known))]
        return min(times, default=None)

    def _all(self) -> list[Known]:
        return list(run_now(self._parts.scheduling.all()))

    def _begin(self, known: Known, from_ms: int) -> None:
        schedule, notes = known.schedule, self._parts.ports.notes
        self._sent_ms.pop(schedule.name, None)
        before = firing_text(known.last) if known.last else None
        began = Firing(from_ms, known.last.run_id if known.last else "", plan_of(schedule))
        run_now(notes.put_note(FIRING, schedule.name, firing_text(began), before))

    def _last_ms(self, known: Known) -> int:
        noted_ms = known.last.at_ms if known.last else 0
        return max(noted_ms, self._sent_ms.get(known.schedule.name, 0))
