"""The ticker: sends the messages of schedules at their times, which on AWS EventBridge Scheduler itself does.

What was dealt with is noted by whoever handles a message, so a ticker that starts anew knows what it missed. A
schedule that it sees for the first time, or with other times, counts from then on.
"""

from __future__ import annotations

from stepwell.runtime.assembly import Assembly
from stepwell.runtime.log.messages import Scheduled, to_json
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.ports import Lane
from stepwell.runtime.starts.schedules import FIRING, Firing, Known, due_ms, firing_text, next_ms, plan_of


class Ticker:
    """For one thread. A message that was sent, and not handled before a crash, is sent again: that starts nothing."""

    def __init__(self, parts: Assembly) -> None:
        self._parts = parts
        self._sent_ms: dict[str, int] = {}  # by schedule: the last time for which a message was sent

    def tick(self) -> None:
        """Sends what is due."""
        now_ms = self._parts.ports.clock.now_ms()
        for known in self._all():
            schedule = known.schedule
            if known.last is None or known.last.plan != plan_of(schedule):
                self._begin(known, now_ms)
                continue
            for at_ms in due_ms(schedule, self._last_ms(known), now_ms):
                made = None if known.of_definition else schedule
                message = to_json(Scheduled(schedule.name, at_ms, made))
                run_now(self._parts.ports.queue.send(Lane.RESUME, message))
                self._sent_ms[schedule.name] = at_ms

    def next_due_ms(self) -> int | None:
        """When there is something to send next; None where no schedule fires again."""
        times = [time_ms for known in self._all() for time_ms in next_ms(known, self._last_ms(known))]
        return min(times, default=None)

    def _all(self) -> list[Known]:
        return list(run_now(self._parts.scheduling.all()))

    def _begin(self, known: Known, now_ms: int) -> None:
        schedule, notes = known.schedule, self._parts.ports.notes
        self._sent_ms.pop(schedule.name, None)
        before = firing_text(known.last) if known.last else None
        began = Firing(schedule.since_ms or now_ms, known.last.run_id if known.last else "", plan_of(schedule))
        run_now(notes.put_note(FIRING, schedule.name, firing_text(began), before))

    def _last_ms(self, known: Known) -> int:
        noted_ms = known.last.at_ms if known.last else 0
        return max(noted_ms, self._sent_ms.get(known.schedule.name, 0))
