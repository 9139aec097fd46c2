"""The API's view of a line that the code of a run logged."""

from __future__ import annotations

from typing_extensions import TypedDict

from stepwell.engine.names import iso
from stepwell.runtime.stores.log_lines import LogLine


class LogLineView(TypedDict):
    """A line. `id` tells it from all others of the run; `attempt` is 0 for what is about no step.

    `branch`: the id of the branch whose step logged it, as /branches lists them; null for a step of the run's own.
    """

    id: str
    at: str
    level: str
    step: str | None
    branch: str | None
    attempt: int
    message: str


def log_line_view(line: LogLine) -> LogLineView:
    return LogLineView(
        id=line.id,
        at=iso(line.at_ms),
        level=line.level,
        step=line.step or None,
        branch=line.branch or None,
        attempt=line.attempt,
        message=line.message,
    )
