"""The stream sends the spans of runs that have ended, where the stack names an endpoint; else it imports nothing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from stepwell.aws.changes import HeaderChanged
from stepwell.aws.run_traces import ended_in, traces_of
from stepwell.aws.streaming import Taken
from stepwell.engine.records import Status
from stepwell.errors import PortError
from tests.contract.kit import header


def taken() -> Taken:
    """A batch with a run that ended, one that waits, and one whose change comes again."""
    runs = {"ended": Status.COMPLETED, "waits": Status.WAITING, "again": Status.FAILED}
    left = {
        name: (position, HeaderChanged(name, None, header(name, status=status), has_input=True))
        for position, (name, status) in enumerate(runs.items())
    }
    return Taken(2, left=left)  # type: ignore[arg-type]  # a dict of changes


def test_the_runs_of_a_batch_that_ended_are_sent() -> None:
    assert [one.run_id for one in ended_in(taken())] == ["ended"]


def test_spans_that_nobody_takes_stop_no_batch(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    sent: list[str] = []

    class Traces:
        async def send(self, header: Any) -> bool:
            sent.append(header.run_id)
            raise PortError("away")

    monkeypatch.setattr("stepwell.otel.open_traces", lambda service: Traces())
    deployed: Any = SimpleNamespace(deployment=SimpleNamespace(sends_spans=True), parts=SimpleNamespace(service=None))
    traces_of(deployed)(taken(), lambda: 1)
    assert sent == ["ended"]
    assert "the spans of run ended are lost: away" in caplog.text


def batch(monkeypatch: pytest.MonkeyPatch, send: Callable[[str], None], left_ms: Callable[[], int]) -> list[str]:
    """The runs of which a batch of a hundred sends the spans."""
    sent: list[str] = []

    class Traces:
        async def send(self, header: Any) -> bool:
            sent.append(header.run_id)
            send(header.run_id)
            return True

    monkeypatch.setattr("stepwell.otel.open_traces", lambda service: Traces())
    deployed: Any = SimpleNamespace(deployment=SimpleNamespace(sends_spans=True), parts=SimpleNamespace(service=None))
    runs = {
        f"run{at}": (at, HeaderChanged(f"run{at}", None, header(f"run{at}", status=Status.FAILED), has_input=True))
        for at in range(100)
    }
    traces_of(deployed)(Taken(100, left=runs), left_ms)  # type: ignore[arg-type]  # a dict of changes
    return sent


def test_a_collector_that_does_not_answer_takes_a_batch_little_time(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The SDK waits ten seconds for each run. A batch of a hundred would outlast its invocation, and come again."""

    def away(_: str) -> None:
        raise PortError("away")

    assert batch(monkeypatch, away, lambda: 1) == ["run0", "run1"]
    assert "the spans of 98 more runs are lost: sending takes too long" in caplog.text


def test_a_run_whose_spans_cannot_be_told_brings_no_batch_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its batch is done by then: all its events would be sent once more, a hundred times."""

    def broken(run_id: str) -> None:
        if run_id == "run7":
            raise KeyError("an odd entry")

    assert len(batch(monkeypatch, broken, lambda: 1)) == 100
    assert "the spans of run run7 are lost" in caplog.text


def test_a_collector_that_is_slow_gets_what_fits_into_the_invocation(monkeypatch: pytest.MonkeyPatch) -> None:
    left = [250]

    def slowly(_: str) -> None:
        left[0] -= 10

    assert len(batch(monkeypatch, slowly, lambda: left[0])) == 25


def test_a_stack_without_an_endpoint_imports_no_sdk() -> None:
    script = (
        "import sys; from types import SimpleNamespace as N; from stepwell.aws.run_traces import traces_of;"
        "traces_of(N(deployment=N(sends_spans=False)))(None, None);"
        "print(any(name.startswith('opentelemetry') for name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout.strip() == "False"
