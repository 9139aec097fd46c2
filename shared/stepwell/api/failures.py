"""Failed runs by the fingerprint of their error: which step failed, how often, first and last."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import Field
from typing_extensions import TypedDict

from stepwell.api.requests import InstantMs, Query
from stepwell.api.runs.states import error_of
from stepwell.api.runs.views import FailedView, failed_view
from stepwell.engine.fingerprints import failure_of
from stepwell.engine.names import iso
from stepwell.engine.records import Failure, Status
from stepwell.errors import EngineFault, NewerFormat, NotFound
from stepwell.limits import FAILURE_CHARACTERS, PAGE_ITEMS_MAX
from stepwell.runtime.calls.service import Service
from stepwell.runtime.ports.headers import Header

FAILED = frozenset({Status.FAILED, Status.TIMED_OUT, Status.COMPENSATED})


class FailuresQueryString(Query):
    workflow: str = ""
    since: InstantMs = Field(None, description="created at or after this time")
    limit: int = Field(PAGE_ITEMS_MAX, ge=1, le=PAGE_ITEMS_MAX, description="failed runs that are read for a page")
    cursor: str = Field("", description="next_cursor of the page before")


class FailureView(TypedDict):
    """Runs of one workflow that failed alike. `run_id` is the last of them."""

    fingerprint: str
    workflow: str
    type: str
    step: str
    count: int
    first_at: str
    last_at: str
    run_id: str


async def failures_of(service: Service, headers: Iterable[Header]) -> list[FailureView]:
    """Groups failed runs; the largest group comes first. Runs of releases that kept no fingerprint are left out."""
    groups: dict[tuple[str, str], list[Header]] = {}
    for header in headers:
        if header.failure:
            groups.setdefault((header.workflow, header.failure), []).append(header)
    views = [await _view(service, runs) for runs in groups.values()]
    return sorted(views, key=lambda one: (-one["count"], one["fingerprint"]))


async def _view(service: Service, runs: list[Header]) -> FailureView:
    first, last = min(runs, key=_ended), max(runs, key=_ended)
    failed = await _failed(service, last)
    return FailureView(
        fingerprint=failed["fingerprint"],
        workflow=last.workflow,
        type=failed["type"],
        step=failed["step"],
        count=len(runs),
        first_at=iso(first.ended_ms),
        last_at=iso(last.ended_ms),
        run_id=last.run_id,
    )


async def _failed(service: Service, header: Header) -> FailedView:
    """Returns the error's type and step. Where the header may be read in two ways, or is cut, the run's log tells."""
    failed = failed_view(header.failure)
    is_clear = header.failure.count(" ") == 2 and len(header.failure) < FAILURE_CHARACTERS
    error = None if is_clear else await _error(service, header.run_id)
    if error is None or failure_of(error) != header.failure:
        return failed
    return FailedView(fingerprint=failed["fingerprint"], type=error.type, step=error.step)


async def _error(service: Service, run_id: str) -> Failure | None:
    """Returns the error of a run; None if it has gone, or cannot be read."""
    try:
        return error_of((await service.standing(run_id)).token)
    except (NotFound, EngineFault, NewerFormat):
        return None


def _ended(header: Header) -> tuple[int, str]:
    return header.ended_ms, header.run_id
