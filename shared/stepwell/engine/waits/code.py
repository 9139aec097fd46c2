"""A wait for other code: the token cannot go on with what is deployed."""

from __future__ import annotations

from typing import Any

from stepwell.engine.names import iso
from stepwell.engine.records import Parked, Record
from stepwell.engine.token import Token
from stepwell.engine.waits.kind import Began, Reason, WaitKind, Waker

CODE = "code"  # its name in records


class CodeWait(WaitKind):
    """A timer and an event end it, and the token tries again what it could not do."""

    def parked(self, token: Token, record: Record, parked: Parked) -> dict[str, Any]:
        return {"parked": parked, "resumption": None, "waited": record.attempt}

    def began(self, record: Record, parked: Parked, run_id: str, token: str) -> Began:
        until = None if parked.until_ms is None else iso(parked.until_ms)
        return Began(self.entry, {"until": until, "error": parked.data}, record.attempt + 1)

    def reason(self, parked: Parked, node: str, run_id: str) -> Reason:
        error = parked.data if isinstance(parked.data, dict) else {}
        text = f"It cannot go on with the code that is deployed: {error.get('type')}: {error.get('message')}."
        event = f'POST /runs/{run_id}/events with {{"name": "code.deployed"}}, once there is other code'
        wakers = (Waker("timer", "it is tried again then, by itself", parked.until_ms), Waker("event", event))
        return Reason(f"{text} Nothing is lost: mend the code and deploy it.", wakers)


CODE_WAIT = CodeWait(CODE, entry="function.stuck", is_aside=True)
