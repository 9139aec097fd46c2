"""Alarms: messages for a given time, however far off."""

from __future__ import annotations

from stepwell.limits import MINUTE_MS
from stepwell.runtime.log.messages import Deadline, Message, Timer, Wake, to_json
from stepwell.runtime.ports import Lane, Ports

QUEUE_HORIZON_MS = 15 * MINUTE_MS  # the longest delay of a queue; beyond it a timer is set


class Alarms:
    """Sends messages for later. Every operation may be repeated."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports

    async def arm(self, lane: Lane, message: Wake | Timer | Deadline, at_ms: int, made_ms: int) -> None:
        """Schedules the message for a time: by the queue's delay within 15 minutes, by a timer beyond.

        `made_ms`: when the run was made. A deleted run leaves its timers, whose names are not those of a later run with
        its id.
        """
        if at_ms - self._ports.clock.now_ms() <= QUEUE_HORIZON_MS:
            await self._ports.queue.send(lane, to_json(message), at_ms)
        else:
            name = f"{message.run_id}.{made_ms}.{message.id}"
            await self._ports.timers.set(name, lane, to_json(message), at_ms)

    async def look_again(
        self, lane: Lane, message: Wake | Timer | Deadline, at_ms: int, delivered: Message, made_ms: int
    ) -> None:
        """Schedules the message; by the queue if it is the one that just came, too early by this machine's clock.

        A timer's name is used up once it has fired: setting it again would change nothing.
        """
        if delivered.id != message.id:
            await self.arm(lane, message, at_ms, made_ms)
        else:
            hop_ms = min(at_ms, self._ports.clock.now_ms() + QUEUE_HORIZON_MS)
            await self._ports.queue.send(lane, to_json(message), hop_ms)
