"""The wait for a permit: of a named limit, beside the step that needs it, or of the workflow's own for a whole run."""

from __future__ import annotations

from typing import Any

from stepwell.engine.limits import shares, throttles
from stepwell.engine.names import iso
from stepwell.engine.records import Parked, Record
from stepwell.engine.table import Signal
from stepwell.engine.token import Token
from stepwell.engine.waits.aside import LIMIT, is_for_limit, step_aside
from stepwell.engine.waits.kind import Began, Coming, Reason, WaitKind, Waker


class LimitWait(WaitKind):
    """A permit ends it, and the token goes on with its step."""

    def parked(self, token: Token, record: Record, parked: Parked) -> dict[str, Any]:
        permit = {"share": shares.asked(record)} if shares.is_of_run(parked) else {
            "permit": throttles.asked(record, parked)}  # fmt: skip
        return {"aside": step_aside(token, record), "parked": parked, "resumption": None, "received": (),
                "received_slot": -1, "fork": None, **permit}  # fmt: skip

    def resumed(self, token: Token, record: Record, parked: Parked) -> dict[str, Any]:
        what, asked = ("share", token.share) if shares.is_of_run(parked) else ("permit", token.permit)
        return {"resumption": record.resumption, what: throttles.answered(asked, record.resumption)}

    def began(self, record: Record, parked: Parked, run_id: str, token: str) -> Began:
        return Began(self.entry, parked.data)

    def reason(self, parked: Parked, node: str, run_id: str) -> Reason:
        """Names the limit, the steps that have its permits, and how many come before."""
        data, name = parked.data, limit_named(parked)
        of_run = shares.is_of_run(parked)
        who = "the run has waited, and" if of_run else data["step"]
        text = f"{who} waits since {iso(parked.since_ms)} for the limit {name}"
        if "turn_ms" in data:
            return Reason(f"{text}: its turn comes at {iso(data['turn_ms'])}.",
                          (Waker("timer", "its turn under the limit", data["turn_ms"]),))  # fmt: skip
        if "under_way" not in data:
            return Reason(f"{text}, whose permit it is about to get.")
        holders = ", ".join(data["under_way"])
        waker = Waker("limit", f"the end, or a wait, of {holders}" if of_run else f"the end of a step of {holders}")
        return Reason(f"{text}: {data['most']} at once, {data['before']} before it.", (waker,))


def limit_named(parked: Parked) -> str:
    """Returns the limit whose permit is waited for, with its key."""
    data = parked.data
    return f"{data['limit']}/{data['key']}" if "key" in data else str(data["limit"])


def step_named(parked: Parked, node: str) -> str:
    """Returns the node that waits: of a permit, the step that asks for it, where its token may not be yet."""
    return str(parked.data["step"]) if is_for_limit(parked) else node


LIMIT_WAIT = LimitWait(
    LIMIT,
    Signal.STUCK,
    entry="limit.requested",
    comings={
        throttles.PERMITTED: Coming("limit.granted"),
        throttles.REFUSED: Coming("limit.refused"),
        throttles.LEFT: Coming("limit.left"),
    },
    thing="a permit of a limit",
)
