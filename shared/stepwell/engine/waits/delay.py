"""Waits for a time: `delay` among other waits, `sleep` for a node, a step or a durable function."""

from __future__ import annotations

from stepwell.definition.graph import Wait
from stepwell.engine.table import Signal
from stepwell.engine.waits.kind import WaitKind, limited


class TimerWait(WaitKind):
    """Its timer completes it, without a value."""

    def words(self, wait: Wait) -> str:
        return limited(self.name, wait, " ")


DELAY = TimerWait("delay", Signal.SLEPT, "sleep.started", "sleep.completed", is_timed=True, thing="a time")
SLEEP = TimerWait("sleep", Signal.SLEPT, "sleep.started", "sleep.completed", is_timed=True, thing="a time")
