"""Names the updates that a stuck durable function has not taken, as part of its explanation."""

from __future__ import annotations

from collections.abc import Sequence

from stepwell.api.runs.explain import Explanation
from stepwell.engine.names import iso
from stepwell.engine.waits import run_topic
from stepwell.engine.waits.code import is_code
from stepwell.runtime.calls.updates import EVENTS
from stepwell.runtime.ports import Event, Ports


async def with_updates(explanation: Explanation, ports: Ports) -> Explanation:
    """Adds to the explanation of a run that waits for code that updates wait for it too. Others are as they were."""
    if not is_code(explanation["waiting_for"] or ""):
        return explanation
    pending = await _pending(explanation["run_id"], ports)
    return {**explanation, "why": f"{explanation['why']} {_text(pending)}"} if pending else explanation


async def _pending(run_id: str, ports: Ports) -> list[Event]:
    """Reads the updates that were neither made nor refused, the oldest first. A refusal is an event of its own."""
    now_ms = ports.clock.now_ms()
    sent, refused = (run_topic(name, run_id) for name in EVENTS)
    found = await ports.mailbox.pending_events(sent, now_ms)
    over = {one.id for one in await ports.mailbox.pending_events(refused, now_ms)} if found else set()
    return [one for one in found if one.id not in over]


def _text(pending: Sequence[Event]) -> str:
    first = pending[0]
    name, since = first.payload["name"], iso(first.at_ms)
    if len(pending) == 1:
        return f"The update {name} is pending since {since}: the function takes it once its code fits."
    return f"{len(pending)} updates are pending, the first of them {name}, since {since}: the function takes them then."
