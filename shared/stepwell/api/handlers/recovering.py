"""The handler that wakes what stands still."""

from __future__ import annotations

from pydantic import Field

from stepwell.api.exchange import Answer, Call, Route
from stepwell.api.requests import Body, NoQuery
from stepwell.limits import SECOND_MS, WAIT_ANSWER_SECONDS

_MOST_MS = WAIT_ANSWER_SECONDS * SECOND_MS // 2  # of one call, which the gateway bounds


class RecoverBody(Body):
    all: bool = Field(False, description="arm every open run again, as after a restore; else look at what is due")
    cursor: str = Field("", description="next_cursor of the call before, until it is null")


async def recover(call: Call) -> Answer:
    """Looks at runs that are due, and wakes those that stand still; or at all of them."""
    call.asked(NoQuery)
    body, clock = call.body(RecoverBody), call.parts.ports.clock
    until_ms = clock.now_ms() + _MOST_MS
    recovery = call.parts.recovery
    run = recovery.recover_all if body.all else recovery.recover
    report = await run(lambda: until_ms - clock.now_ms(), body.cursor)
    first = [{"run_id": run_id, "why": why} for run_id, why in report.first]
    counts = {"looked": report.looked, "woken": dict(report.found), "first": first, "rearmed": report.rearmed}
    return Answer(200, {**counts, "next_cursor": report.next_cursor or None})


RECOVERING_ROUTES = (
    Route("POST", "/recover", recover, "Wake runs that stand still",
          {200: "what was found, by its reason; call again with `next_cursor` until it is null"},
          "RecoveryView", RecoverBody),
)  # fmt: skip
