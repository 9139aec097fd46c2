"""Handlers that act on many runs at once."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from stepwell.api.exchange import Answer, Call, Route
from stepwell.api.handlers.asking import tag_of
from stepwell.api.handlers.starting import key_of, shown
from stepwell.api.requests import Body, By, InstantMs, NoQuery, Reason, several
from stepwell.engine.records import Status
from stepwell.errors import InvalidInput
from stepwell.limits import BATCH_RATE
from stepwell.runtime.calls.batching import Batch


def _one_or_more(schema: dict[str, Any]) -> None:
    listed = {"type": schema.pop("type"), "items": schema["items"]}
    schema["anyOf"] = [schema.pop("items"), listed]


class BatchFilter(Body):
    workflow: str = ""
    status: Annotated[list[Annotated[Status, Field(strict=False)]], BeforeValidator(several)] = Field(
        default_factory=list,
        description="one or more; default: those that the action is for",
        json_schema_extra=_one_or_more,
    )
    tag: str = Field("", description="name=value", json_schema_extra={"pattern": "^([^=:]+=.*)?$"})
    since: InstantMs = Field(None, description="created at or after this time")
    before: InstantMs = Field(None, description="created before this time")
    failure: str = Field("", description="the fingerprint of an error, as GET /failures lists them")


class BatchBody(Body):
    filter: BatchFilter = Field(description="names at least one of its fields")
    action: Literal["cancel", "terminate", "pause", "unpause", "redrive", "purge"]
    rate: float = Field(0, ge=0, le=BATCH_RATE, allow_inf_nan=False, description="runs a second; 0: as fast as they go")
    canary: bool = Field(False, description="redrive 1, then 10, then the rest; stop if one fails as before")
    dry_run: bool = Field(False, description="count the runs, and do nothing")
    force: bool = Field(False, description="purge: terminate runs that have not ended, else they are refused")
    reason: Reason = ""
    by: By = ""


def _check_filled(given: BatchFilter) -> None:
    """Raises InvalidInput for a part that is empty, as of a variable that is not set: it would leave no run out."""
    for name in BatchFilter.model_fields:
        if name in given.model_fields_set and getattr(given, name) in ("", []):
            raise InvalidInput(f"the filter's `{name}` is empty, so it would leave no run out", code="empty_filter",
                               hint="give it a value, or leave it out if all runs are meant")  # fmt: skip


async def start_batch(call: Call) -> Answer:
    """Starts a run that acts on all runs of a filter."""
    call.asked(NoQuery)
    body = call.body(BatchBody)
    _check_filled(body.filter)
    tag = tag_of(body.filter.tag)
    given = Batch(
        action=body.action,
        workflow=body.filter.workflow,
        statuses=[status.value for status in body.filter.status],
        tag=None if tag is None else [*tag],
        since_ms=body.filter.since or 0,
        before_ms=0 if body.filter.before is None else max(body.filter.before, 1),  # 0 would be: of any time
        failure=body.filter.failure,
        rate=body.rate,
        canary=body.canary,
        dry_run=body.dry_run,
        force=body.force,
        reason=body.reason,
        by=call.told(body.by),
    )
    started = await call.parts.service.batch(given, key_of(call))
    return await shown(call, started.header.run_id, 202)


BATCHING_ROUTES = (
    Route("POST", "/runs:batch", start_batch, "Cancel, terminate, pause, unpause, redrive or purge many runs",
          {202: "the run that does it: `state.report` has its progress, and at the end its report",
           409: "the key was used with another body",
           422: "the filter names no runs, or the canary is not of a redrive"}, shape="RunView", body=BatchBody,
          headers={"Idempotency-Key": "repeated calls with the same key start one batch"}),
)  # fmt: skip
