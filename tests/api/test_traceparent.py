"""The header `traceparent` of a start is kept with the run."""

from __future__ import annotations

from stepwell.runtime.loop.driving import run_now
from tests.api.kit import World

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_a_start_takes_the_callers_trace_and_passes_over_what_is_none() -> None:
    world = World()
    for given, kept in ((TRACE, TRACE), ("nonsense", "")):
        reply = world.post("/workflows/paid/runs", {"input": {"order": "1"}}, {"traceparent": given})
        assert reply.status == 201
        assert run_now(world.parts.service.header(reply.json["run_id"])).trace == kept
