"""OpenTelemetry spans of a run, from its history: the run, each attempt of a step, each wait.

run ─┬─ charge, attempt 1          step.started ── step.failed
     ├─ charge, attempt 2          step.started ── step.completed
     └─ approval                   approval.requested ── approval.received
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field

from stepwell.definition.graph import Json
from stepwell.engine.entries import Entry, place_of
from stepwell.engine.records import Status
from stepwell.runtime.log import tracing
from stepwell.runtime.ports.headers import Header
from stepwell.values import dataclass

_ATTEMPT_ENDS = frozenset({"step.completed", "step.failed", "step.paused", "step.blocked", "step.skipped"})
_WAIT_BEGINS = frozenset({"sleep.started", "approval.requested", "event.awaited", "children.started", "lock.requested"})
_WAIT_ENDS = frozenset({
    "sleep.completed", "approval.received", "approval.rejected", "event.received", "children.completed",
    "child.failed", "child.refused", "lock.granted", "lock.refused", "timer.fired",
})  # fmt: skip
_FAILED = frozenset({Status.FAILED, Status.TIMED_OUT})


@dataclass(frozen=True, slots=True)
class Span:
    """A span: ids in hexadecimal, times in ms. `error`: the type of what failed; no message, which may be secret."""

    name: str
    span_id: str
    parent_id: str
    start_ms: int
    end_ms: int
    error: str = ""
    attributes: Mapping[str, str | int] = field(default_factory=dict)


def spans_of(header: Header, entries: Iterable[Entry]) -> Iterator[Span]:
    """Yields the spans of an ended run, its own last. Records kept from another run are among that run's spans."""
    open_attempts: dict[str, Entry] = {}
    open_waits: dict[str, Entry] = {}
    for entry in entries:
        if header.origin and entry.at_ms < header.created_ms:  # a run is created after all records that it keeps
            continue
        if entry.type == "step.started":
            open_attempts[entry.token] = entry
        elif entry.type in _ATTEMPT_ENDS and (began := open_attempts.pop(entry.token, None)):
            yield _between(header, began.step, began, entry, {"stepwell.attempt": began.attempt})
        elif entry.type in _WAIT_BEGINS:
            open_waits[entry.token] = entry
        elif entry.type in _WAIT_ENDS and (began := open_waits.pop(entry.token, None)):
            kind = began.type.partition(".")[0]
            name = f"{began.step} ({kind})" if began.step else kind
            yield _between(header, name, began, entry, {"stepwell.wait": kind})
    yield _of_run(header)


def _of_run(header: Header) -> Span:
    about = {f"stepwell.tag.{name}": value for name, value in header.tags.items()}
    if header.parent:
        about["stepwell.parent"] = header.parent.partition("|")[0]
    error = header.failure.split(" ")[1] if header.status in _FAILED and " " in header.failure else ""
    return Span(
        header.workflow,
        tracing.run_span(header.run_id),
        tracing.context_of(header).parent_id,
        header.created_ms,
        max(header.ended_ms, header.created_ms),
        error or (header.status.value if header.status in _FAILED else ""),
        {"stepwell.run_id": header.run_id, "stepwell.version": header.version,
         "stepwell.status": header.status.value, **about},
    )  # fmt: skip


def _between(header: Header, name: str, began: Entry, ended: Entry, about: Mapping[str, str | int]) -> Span:
    slot = (place_of(ended.id) or (0, 0))[0]
    return Span(
        name,
        tracing.record_span(header.run_id, ended.token, slot),
        tracing.run_span(header.run_id),
        began.at_ms,
        max(ended.at_ms, began.at_ms),
        _error_of(ended.data),
        {"stepwell.run_id": header.run_id, "stepwell.token": ended.token, **about},
    )


def _error_of(data: Json) -> str:
    error = data.get("error") if isinstance(data, dict) else None
    return str(error.get("type", "error")) if isinstance(error, dict) else ""
