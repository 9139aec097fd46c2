"""The API's view of a run's steps and errors."""

from __future__ import annotations

from typing_extensions import TypedDict

from stepwell.definition.graph import Json
from stepwell.engine.names import iso
from stepwell.engine.records import Failure
from stepwell.engine.token import StepView


class ErrorView(TypedDict):
    """An error: `category` decides about retries, `type` is a class name or a code.

    `traceback` has the lines of your code that led to it, and is empty for an error of another origin.
    """

    type: str
    category: str
    message: str
    step: str
    attempts: int
    data: Json
    traceback: str


class StepResult(TypedDict):
    """The result of a step or wait in its latest visit.

    `branches`: of a step that ran in branches, how many there are (`total`), and how many in each status; `attempts`
    counts all of theirs then, `error` is that of the first that failed, and each output is in its branch.
    """

    status: str
    output: Json
    error: ErrorView | None
    attempts: int
    started_at: str | None
    ended_at: str | None
    branches: dict[str, int] | None


def error_view(failure: Failure | None) -> ErrorView | None:
    """Builds the view of an error with all its fields."""
    if failure is None:
        return None
    return ErrorView(
        type=failure.type,
        category=failure.category,
        message=failure.message,
        step=failure.step,
        attempts=failure.attempts,
        data=failure.data,
        traceback=failure.traceback,
    )


def step_result(step: StepView) -> StepResult:
    return StepResult(
        status=step.status,
        output=step.output,
        error=error_view(step.error),
        attempts=step.attempts,
        started_at=time_of(step.started_ms),
        ended_at=time_of(step.ended_ms),
        branches=None,
    )


def time_of(at_ms: int | None) -> str | None:
    """Formats a time as RFC 3339; None if it has not happened."""
    return iso(at_ms) if at_ms else None
