"""The handler of what the code of a run logged."""

from __future__ import annotations

from pydantic import Field

from stepwell.api.exchange import Answer, Call, Route
from stepwell.api.log_lines import log_line_view
from stepwell.api.requests import InstantMs, Query
from stepwell.limits import LOG_LATE_MS, PAGE_ITEMS_MAX
from stepwell.runtime.stores.log_lines import Asked

_LINES = 200


class LogsQueryString(Query):
    since: InstantMs = Field(None, description="logged at or after this time")
    limit: int = Field(_LINES, ge=1, le=PAGE_ITEMS_MAX)
    cursor: str = Field("", description="next_cursor of the page before")


async def get_logs(call: Call) -> Answer:
    """Lists what the run's code logged, oldest first; on AWS, so for each pool of workers."""
    asked, run_id = call.asked(LogsQueryString), call.path["run_id"]
    header = await call.parts.service.header(run_id)
    until_ms = header.ended_ms + LOG_LATE_MS if header.ended_ms else None
    since_ms = max(asked.since or 0, header.created_ms)
    page = await call.parts.run_logs.read(Asked(run_id, since_ms, until_ms, asked.limit, asked.cursor))
    return Answer(200, {"items": [log_line_view(one) for one in page.lines], "next_cursor": page.next_cursor or None})


LOGGING_ROUTES = (
    Route("GET", "/runs/{run_id}/logs", get_logs, "List what a run's steps logged and printed, oldest first",
          {200: "a page; it may be empty and have a next_cursor", 404: "no such run"}, "LogPage",
          query=LogsQueryString),
)  # fmt: skip
