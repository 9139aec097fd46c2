"""The API's view of a workflow's pause."""

from __future__ import annotations

from typing_extensions import TypedDict

from stepwell.engine.names import iso
from stepwell.runtime.loop.pauses import WorkflowPause


class WorkflowPauseView(TypedDict):
    """A pause of a workflow, or of `*`: all of them."""

    workflow: str
    since: str
    by: str | None
    reason: str | None


def pause_view(pause: WorkflowPause) -> WorkflowPauseView:
    return WorkflowPauseView(
        workflow=pause.workflow, since=iso(pause.since_ms), by=pause.by or None, reason=pause.reason or None
    )
