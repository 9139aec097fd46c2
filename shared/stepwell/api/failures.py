"""Failed runs by the fingerprint of their error: which step failed, how often, first and last."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import Field
from typing_extensions import TypedDict

from stepwell.api.requests import InstantMs, Query
from stepwell.api.runs.views import failed_view
from stepwell.engine.names import iso
from stepwell.engine.records import Status
from stepwell.limits import PAGE_ITEMS_MAX
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


def failures_of(headers: Iterable[Header]) -> list[FailureView]:
    """Groups failed runs; the largest group comes first. Runs of releases that kept no fingerprint are left out."""
    groups: dict[tuple[str, str], list[Header]] = {}
    for header in headers:
        if header.failure:
            groups.setdefault((header.workflow, header.failure), []).append(header)
    return sorted((_view(runs) for runs in groups.values()), key=lambda one: (-one["count"], one["fingerprint"]))


def _view(runs: list[Header]) -> FailureView:
    first, last = min(runs, key=_ended), max(runs, key=_ended)
    failed = failed_view(last.failure)
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


def _ended(header: Header) -> tuple[int, str]:
    return header.ended_ms, header.run_id
