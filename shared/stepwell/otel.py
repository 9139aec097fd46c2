"""Traces of runs for OpenTelemetry, with its own SDK: `pip install "stepwell[otel]"`.

Imported only where somebody asks for traces: the SDK takes a while to import.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace import SpanContext, SpanKind, TraceFlags
from opentelemetry.trace.status import Status, StatusCode

from stepwell.errors import PortError, StepwellError
from stepwell.runtime.log import tracing
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.notify.spans import Span, spans_of

if TYPE_CHECKING:
    from stepwell.runtime.calls.service import Service
    from stepwell.runtime.ports.headers import Header

_NS_IN_MS = 1_000_000
_logger = logging.getLogger("stepwell.traces")


class Traces:
    """Sends the spans of runs that have ended. A run's spans may be sent twice: their ids are the same."""

    def __init__(self, service: Service, exporter: SpanExporter) -> None:
        self._service, self._exporter = service, exporter
        self._resource = Resource.create({"service.name": "stepwell"})

    async def send(self, header: Header) -> bool:
        """Whether the run has ended and is sampled. Raises PortError if nobody takes the spans."""
        if not header.status.terminal or not tracing.context_of(header).sampled:
            return False
        narrator = await self._service.narrator(header.run_id)
        entries = [entry async for entry in narrator.entries()]
        spans = [self._readable(header, span) for span in spans_of(header, entries)]
        why = self._refusal(spans)
        if why is not None:
            raise PortError(f"the spans of run {header.run_id} were not taken{why}",
                            hint="see OTEL_EXPORTER_OTLP_ENDPOINT")  # fmt: skip
        return True

    def _refusal(self, spans: Sequence[ReadableSpan]) -> str | None:
        """Sends the spans. Returns why nobody took them; None if somebody did."""
        try:
            return None if self._exporter.export(spans) is SpanExportResult.SUCCESS else ""
        except Exception as error:  # older exporters let out what their HTTP library raises
            return f": {error}"

    def _readable(self, header: Header, span: Span) -> ReadableSpan:
        trace_id = tracing.context_of(header).trace_id
        return ReadableSpan(
            span.name,
            _context(trace_id, span.span_id),
            _context(trace_id, span.parent_id, is_remote=True) if span.parent_id else None,
            self._resource,
            dict(span.attributes),
            kind=SpanKind.INTERNAL,
            status=Status(StatusCode.ERROR, span.error) if span.error else Status(StatusCode.UNSET),
            start_time=span.start_ms * _NS_IN_MS,
            end_time=span.end_ms * _NS_IN_MS,
        )


def open_traces(service: Service) -> Traces:
    """Sends to where the environment says: OTEL_EXPORTER_OTLP_ENDPOINT and its kind, which the SDK reads."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415 - HTTP

    return Traces(service, OTLPSpanExporter())


class Background:
    """Sends in a thread of its own: no run waits for whoever takes traces, or fails because of it."""

    def __init__(self, traces: Traces) -> None:
        self._traces, self._pool = traces, ThreadPoolExecutor(1, "stepwell-traces")

    async def __call__(self, header: Header) -> None:
        if header.status.terminal:
            self._pool.submit(self._send, header)

    def _send(self, header: Header) -> None:
        try:
            run_now(self._traces.send(header))
        except StepwellError as error:
            _logger.warning("the spans of run %s are lost: %s", header.run_id, error)
        except Exception:
            _logger.exception("the spans of run %s are lost", header.run_id)


def _context(trace_id: str, span_id: str, *, is_remote: bool = False) -> SpanContext:
    return SpanContext(int(trace_id, 16), int(span_id, 16), is_remote, TraceFlags(TraceFlags.SAMPLED))
