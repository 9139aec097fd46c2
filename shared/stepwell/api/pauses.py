"""The API's view of a workflow's pause."""

from __future__ import annotations

from typing_extensions import TypedDict

from stepwell.engine.names import iso
from stepwell.runtime.loop.pauses import WorkflowPause
from stepwell.runtime.ports import EVERY


class WorkflowPauseView(TypedDict):
    """A pause of a workflow, or of `*`: all of them."""

    workflow: str
    since: str
    by: str | None
    reason: str | None


class WorkflowPausedView(WorkflowPauseView):
    """A pause, as the answer to the call that asks for it. `paused_before`: it was there already, and stays."""

    paused_before: bool


def pause_view(pause: WorkflowPause) -> WorkflowPauseView:
    return WorkflowPauseView(
        workflow=pause.workflow, since=iso(pause.since_ms), by=pause.by or None, reason=pause.reason or None
    )


def pause_text(pause: WorkflowPause) -> str:
    """Describes it: `Its workflow order is paused by ana since 2026-01-31T09:00:00Z (the bank is down)`."""
    what = "All workflows are" if pause.workflow == EVERY else f"Its workflow {pause.workflow} is"
    by = f" by {pause.by}" if pause.by else ""
    return f"{what} paused{by} since {iso(pause.since_ms)}{f' ({pause.reason})' if pause.reason else ''}"


def unpause_path(workflow: str, run_id: str = "") -> str:
    """Returns the path of the call that ends the pause of this workflow; "": that of the run itself."""
    if not workflow:
        return f"/runs/{run_id}/unpause"
    return "/workflows:unpause" if workflow == EVERY else f"/workflows/{workflow}/unpause"
