"""Alarms: messages that are to come at a time, however far off it is."""

from __future__ import annotations

from stepwell.limits import MINUTE_MS
from stepwell.runtime.log.messages import Deadline, Message, Timer, Wake, to_json
from stepwell.runtime.ports import Lane, Ports

QUEUE_HORIZON_MS = 15 * MINUTE_MS  # what a queue's own delay can cover; beyond it a timer is set


class Alarms:
    """Messages for later. Everything here may be done twice."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports

    async def arm(self, lane: Lane, message: Message, at_ms: int, run_id: str) -> None:
        """The message at that time: by the queue's delay within 15 minutes, by a timer beyond."""
        if at_ms - self._ports.clock.now_ms() <= QUEUE_HORIZON_MS:
            await self._ports.queue.send(lane, to_json(message), at_ms)
        else:
            await self._ports.timers.set(f"{run_id}.{message.id}", lane, to_json(message), at_ms)

    async def look_again(self, lane: Lane, message: Wake | Timer | Deadline, at_ms: int, came: Message) -> None:
        """Arms the message; one that just came, too early by this machine's clock, goes on by the queue.

        A timer's name is used up once it has fired: setting it again would change nothing.
        """
        if came.id != message.id:
            await self.arm(lane, message, at_ms, message.run_id)
        else:
            hop_ms = min(at_ms, self._ports.clock.now_ms() + QUEUE_HORIZON_MS)
            await self._ports.queue.send(lane, to_json(message), hop_ms)
