"""Traces of runs for OpenTelemetry: the caller's context is kept and passed on, and spans are told the same twice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from stepwell.engine.actions import Outcome
from stepwell.engine.records import Status
from stepwell.errors import PortError
from stepwell.otel import Background, Traces
from stepwell.runtime.log import tracing
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.ports.headers import Header
from stepwell.runtime.starts.starting import Start
from tests.runtime.kit import World, fails

CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
FLOW = """
workflow: flow
timeline:
  - {name: charge, run: "python:m.charge", retry: {max_retries: 1, initial_delay: 1s}}
  - {name: ask, wait: {for: approval}}
  - {name: sub, children: [{workflow: child}], timeout: 1h}
  - {name: ship, run: "python:m.ship"}
"""
CHILD = "workflow: child\ntimeline: [{name: work, run: python:m.work}]"


def played(trace: str = CALLER) -> tuple[World, str]:
    """A run that is retried, waits, calls another run and fails."""
    world, tries = World(FLOW, CHILD), iter(range(9))
    world.steps.of["charge"] = lambda call: fails("Busy", "transient") if not next(tries) else "paid"
    world.steps.of["ship"] = lambda call: fails("NoCarrier")
    started = run_now(world.service.start(Start("flow", {"n": 1}, tags={"team": "a"}, trace=trace)))
    world.pass_time(5_000)
    run_now(world.service.approve(started.header.run_id))
    world.pass_time(60_000)
    return world, started.header.run_id


def spans_of(world: World, run_id: str) -> list[ReadableSpan]:
    exporter = InMemorySpanExporter()
    assert run_now(Traces(world.service, exporter).send(world.header(run_id)))
    return list(exporter.get_finished_spans())


def _ids(span: Any) -> tuple[str, str, str]:
    above = format(span.parent.span_id, "016x") if span.parent else ""
    return format(span.context.trace_id, "032x"), format(span.context.span_id, "016x"), above


def test_a_run_an_attempt_and_a_wait_are_spans_of_the_callers_trace() -> None:
    world, run_id = played()
    spans = spans_of(world, run_id)
    assert [one.name for one in spans] == ["charge", "charge", "ask (approval)", "sub (children)", "ship", "flow"]
    trace, own, above = _ids(spans[-1])
    assert (trace, above) == (CALLER[3:35], CALLER[36:52])
    assert {_ids(one)[0] for one in spans} == {trace}
    assert {_ids(one)[2] for one in spans[:-1]} == {own}
    assert [one.status.description for one in spans] == ["Busy", None, None, None, "NoCarrier", "NoCarrier"]
    assert spans[-1].attributes is not None
    assert (spans[-1].attributes["stepwell.run_id"], spans[-1].attributes["stepwell.tag.team"]) == (run_id, "a")
    assert all(one.start_time and one.end_time and one.start_time <= one.end_time for one in spans)
    approval = spans[2]
    assert approval.end_time is not None
    assert approval.start_time is not None
    assert approval.end_time - approval.start_time == 4_000 * 1_000_000


def test_spans_that_are_told_twice_are_the_same() -> None:
    world, run_id = played()
    assert [_ids(one) for one in spans_of(world, run_id)] == [_ids(one) for one in spans_of(world, run_id)]


def test_a_child_run_is_in_its_parents_trace() -> None:
    world, run_id = played()
    (child,) = (one for one in world.store.inner._runs if one != run_id)
    trace, _, above = _ids(spans_of(world, child)[-1])
    assert (trace, above) == (CALLER[3:35], tracing.run_span(run_id))
    about = spans_of(world, child)[-1].attributes
    assert about is not None
    assert about["stepwell.parent"] == run_id


@pytest.mark.parametrize("trace", ["", "nonsense", CALLER.replace("00-", "ff-", 1), "00-" + "0" * 32 + CALLER[35:]])
def test_a_run_without_a_trace_begins_one_of_its_own(trace: str) -> None:
    world, run_id = played(trace)
    found, _, above = _ids(spans_of(world, run_id)[-1])
    assert (world.header(run_id).trace, above) == ("", "")
    assert found == tracing.context_of(world.header(run_id)).trace_id != "0" * 32
    assert {call.trace for call in world.steps.calls} == {""}  # whoever is called decides what it samples


def test_a_trace_that_nobody_samples_is_not_sent() -> None:
    world, run_id = played(CALLER[:-2] + "00")
    assert not run_now(Traces(world.service, InMemorySpanExporter()).send(world.header(run_id)))


def test_a_run_that_goes_on_is_not_sent_and_spans_that_nobody_takes_are_told() -> None:
    class Full(SpanExporter):
        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            return SpanExportResult.FAILURE

    world, run_id = played()
    with pytest.raises(PortError, match="not taken"):
        run_now(Traces(world.service, Full()).send(world.header(run_id)))
    waiting = world.start("flow", {"n": 2})
    world.deliver()
    assert world.header(waiting).status is Status.WAITING
    assert not run_now(Traces(world.service, Full()).send(world.header(waiting)))


class Breaking(SpanExporter):
    """An exporter of the oldest release that is supported, whose collector is away."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        raise ConnectionError("refused")


def test_what_an_exporter_raises_is_told_as_any_other_refusal() -> None:
    world, run_id = played()
    with pytest.raises(PortError, match="not taken: refused"):
        run_now(Traces(world.service, Breaking()).send(world.header(run_id)))


def test_spans_that_cannot_be_told_are_a_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    world, run_id = played()
    background = Background(Traces(world.service, Breaking()))
    run_now(background(world.header(run_id)))
    background._pool.shutdown()
    assert f"the spans of run {run_id} are lost: " in caplog.text

    class Odd(Traces):
        async def send(self, header: Header) -> bool:
            raise KeyError("an odd entry")

    caplog.clear()
    background = Background(Odd(world.service, Breaking()))
    run_now(background(world.header(run_id)))
    background._pool.shutdown()
    assert f"the spans of run {run_id} are lost" in caplog.text


def test_a_step_gets_the_context_of_its_attempt_which_is_the_span_that_is_told() -> None:
    world, run_id = played()
    sent = [call.trace for call in world.steps.calls if call.run_id == run_id]
    ids = [_ids(one)[1] for one in spans_of(world, run_id) if one.name in ("charge", "ship")]
    assert [one[36:52] for one in sent] == ids
    assert {one[:36] for one in sent} == {CALLER[:36]}


def test_a_repeated_start_in_another_trace_finds_the_first_run() -> None:
    world = World(FLOW, CHILD)
    first = run_now(world.service.start(Start("flow", {"n": 1}, key="k", trace=CALLER)))
    again = run_now(world.service.start(Start("flow", {"n": 1}, key="k", trace=CALLER.replace("0af", "1bf"))))
    assert (again.created, again.header.run_id) == (False, first.header.run_id)


def test_a_redriven_run_is_in_the_same_trace() -> None:
    world, run_id = played()
    world.steps.of["ship"] = lambda call: Outcome("shipped")
    again = run_now(world.service.redrive(run_id)).header
    assert again.trace == CALLER


def test_a_redriven_run_has_no_spans_of_the_steps_that_it_kept() -> None:
    world, run_id = played()
    world.steps.of["ship"] = lambda call: Outcome("shipped")
    again = run_now(world.service.redrive(run_id)).header.run_id
    world.pass_time(1_000)
    assert [one.name for one in spans_of(world, again)] == ["ship", "flow"]
