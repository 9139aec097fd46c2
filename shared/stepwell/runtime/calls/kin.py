"""Kin: the runs made from a run: its redrive, its reruns and its forks.

The id of a redrive is computed from the original's, so nothing is stored for it. Each rerun and fork is an event in the
original's own mailbox, which is part of no record and goes when the original is deleted.
"""

from __future__ import annotations

from collections.abc import Sequence

from stepwell.engine.waits import run_topic
from stepwell.errors import Conflict
from stepwell.limits import YEAR_MS
from stepwell.runtime.ports import Event, Ports
from stepwell.runtime.ports.headers import Header
from stepwell.runtime.starts.ids import redriven_id

EVENTS = ("stepwell.kin",)


async def tell_original(ports: Ports, original: Header, run_id: str) -> None:
    """Notes in the original's mailbox a run that was made from it. Idempotent."""
    now_ms = ports.clock.now_ms()
    expires_ms = max(original.expires_ms, now_ms + YEAR_MS)
    try:
        await ports.mailbox.put_event(Event(run_topic(*EVENTS, original.run_id), run_id, None, now_ms, expires_ms))
    except Conflict:
        return  # the topic is full and lists no more; the run itself is made, and names its original


async def kin_ids(ports: Ports, run_id: str) -> Sequence[str]:
    """Returns the ids of runs that may have been made from this one, newest first, its redrive last."""
    events = await ports.mailbox.pending_events(run_topic(*EVENTS, run_id), ports.clock.now_ms())
    return [*(event.id for event in reversed(events)), redriven_id(run_id)]
