"""The API's view of a schedule."""

from __future__ import annotations

from typing_extensions import TypedDict

from stepwell.api.pauses import WorkflowPauseView, pause_view
from stepwell.definition.graph import Json
from stepwell.engine.names import iso
from stepwell.runtime.loop.pauses import WorkflowPause
from stepwell.runtime.starts.schedules import Held, Known, next_ms

NEXT_TIMES = 3


class SchedulePauseView(TypedDict):
    since: str
    by: str | None
    reason: str | None


class ScheduleView(TypedDict):
    name: str
    workflow: str
    schedule: str
    timezone: str
    overlap: str
    catch_up: float | None  # seconds
    input: Json  # null for a definition's, which has an expression
    version: str  # as a start of its runs names it; "": the deployed one
    source: str  # definition | api
    next: list[str]
    last_at: str | None
    last_run_id: str | None
    created_at: str | None
    paused: SchedulePauseView | None
    workflow_paused: WorkflowPauseView | None  # in a list: its runs start, and rest until that pause is ended
    error: str | None  # why it would start no run now


class SchedulePausedView(ScheduleView):
    """A schedule, as the answer to the call that pauses it. `paused_before`: it was paused, and that pause stays."""

    paused_before: bool


class SchedulePage(TypedDict):
    items: list[ScheduleView]
    next_cursor: str | None


def schedule_view(known: Known, now_ms: int, error: str = "", pause: WorkflowPause | None = None) -> ScheduleView:
    """Builds the view; `next` is empty if the schedule never fires again, or its rate has not begun to count.

    `pause`: that of its workflow, or of all.
    """
    schedule, last = known.schedule, known.last
    return ScheduleView(
        name=schedule.name,
        workflow=schedule.workflow,
        schedule=schedule.expression,
        timezone=schedule.timezone,
        overlap=schedule.overlap,
        catch_up=None if schedule.catch_up_ms is None else schedule.catch_up_ms / 1_000,
        input=schedule.input,
        version=schedule.version,
        source="definition" if known.of_definition else "api",
        next=[iso(at_ms) for at_ms in next_ms(known, now_ms, NEXT_TIMES)],
        last_at=iso(last.at_ms) if last and last.run_id else None,
        last_run_id=(last.run_id or None) if last else None,
        created_at=iso(schedule.since_ms) if schedule.since_ms else None,
        paused=_pause_view(known.held) if known.held else None,
        workflow_paused=pause_view(pause) if pause else None,
        error=error or None,
    )


def _pause_view(held: Held) -> SchedulePauseView:
    return SchedulePauseView(since=iso(held.since_ms), by=held.by or None, reason=held.reason or None)
