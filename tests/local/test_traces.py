"""`stepwell dev` sends the spans of runs that have ended to a collector, over HTTP."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from stepwell.local.pump import Pump
from stepwell.local.wiring import open_local
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.starts.starting import Start
from tests.runtime.kit import graph_of

FLOW = "workflow: flow\ntimeline: [{name: nap, sleep: 1ms}]"
CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Collector:
    """What a collector got, as protobuf."""

    def __init__(self) -> None:
        self.got: list[ExportTraceServiceRequest] = []
        self.came = threading.Event()


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    found = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            found.got.append(ExportTraceServiceRequest.FromString(body))
            self.send_response(200)
            self.end_headers()
            found.came.set()

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        yield found
        server.shutdown()
        thread.join()


def test_a_run_that_ended_is_a_trace_at_the_collector(collector: Collector, tmp_path: Path) -> None:
    (tmp_path / "flows").mkdir()
    local = open_local(tmp_path / "data", tmp_path / "flows", (graph_of(FLOW),))
    pump = Pump(local, 1)
    pump.start()
    try:
        started = run_now(local.parts.service.start(Start("flow", trace=CALLER)))
        assert collector.came.wait(20)
    finally:
        local.stopping.set()
        pump.stop(1)
        local.close()
    (resource,) = collector.got[0].resource_spans
    spans = resource.scope_spans[0].spans
    assert [one.name for one in spans] == ["nap (sleep)", "flow"]
    assert {one.trace_id.hex() for one in spans} == {CALLER[3:35]}
    assert spans[1].parent_span_id.hex() == CALLER[36:52]
    assert started.header.run_id in str(spans[1])
