"""Trace context: the trace that a run belongs to, and the ids of its spans.

A caller's `traceparent` is kept with the run. The ids of spans are computed from the run and the place in its log, so a
span that is reported twice has the same id.
"""

from __future__ import annotations

import hashlib
import re

from stepwell.runtime.ports.headers import Header
from stepwell.values import dataclass

_TRACEPARENT = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
_RUN = "run"


@dataclass(frozen=True, slots=True)
class TraceContext:
    """A trace's id and the span above a run, in hexadecimal; "" if there is none. `sampled`: it is to be kept."""

    trace_id: str
    parent_id: str = ""
    sampled: bool = True


def checked(traceparent: str) -> str:
    """Returns a valid `traceparent`; "" for an invalid one: by the standard, its receiver starts a new trace."""
    found = _TRACEPARENT.fullmatch(traceparent.strip().lower())
    return found[0] if found and int(found[1], 16) and int(found[2], 16) else ""


def context_of(header: Header) -> TraceContext:
    """Returns the trace of a run: its caller's, or one of its own."""
    found = _TRACEPARENT.fullmatch(header.trace)
    if found is None:
        return TraceContext(hashlib.sha256(f"trace:{header.run_id}".encode()).hexdigest()[:32])
    return TraceContext(found[1], found[2], bool(int(found[3], 16) & 1))


def run_span(run_id: str) -> str:
    """Returns the id of the run's own span."""
    return _span(run_id, _RUN)


def record_span(run_id: str, token: str, slot: int) -> str:
    """Returns the id of the span that the record in this slot ends: a step's attempt, or a wait."""
    return _span(run_id, f"{token}@{slot}")


def traceparent(header: Header, span_id: str) -> str:
    """Returns the header for calls that this span makes; "" without a caller's: the callees decide on sampling."""
    if not header.trace:
        return ""
    context = context_of(header)
    return f"00-{context.trace_id}-{span_id}-{'01' if context.sampled else '00'}"


def _span(run_id: str, place: str) -> str:
    return hashlib.sha256(f"span:{run_id}|{place}".encode()).hexdigest()[:16]
