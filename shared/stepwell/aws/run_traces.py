"""Spans of runs that have ended, sent from the stream, after the fact."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeAlias

from stepwell.aws.changes import HeaderChanged
from stepwell.errors import StepwellError
from stepwell.runtime.loop.driving import run_now

if TYPE_CHECKING:
    from stepwell.aws.streaming import Taken
    from stepwell.aws.wiring import Deployed
    from stepwell.runtime.ports.headers import Header

_logger = logging.getLogger("stepwell.traces")

FAILURES = 2  # of a batch: a collector that does not answer takes ten seconds for each run

# Sends a batch's spans, given the time that is left to begin a run, in milliseconds.
Send: TypeAlias = "Callable[[Taken, Callable[[], int]], None]"


def traces_of(aws: Deployed) -> Send:
    """Returns what sends the spans of a batch; nothing is imported or sent unless the stack names an endpoint.

    What a collector keeps it from is lost: else the invocation would run out of time, and its batch come again.
    """
    if not aws.deployment.sends_spans:
        return lambda taken, left_ms: None
    from stepwell.otel import open_traces  # noqa: PLC0415 - the SDK, only where it is asked for

    traces = open_traces(aws.parts.service)

    def send(taken: Taken, left_ms: Callable[[], int]) -> None:
        failures, ended = 0, list(ended_in(taken))
        for number, header in enumerate(ended):
            if failures >= FAILURES or left_ms() <= 0:
                _logger.warning("the spans of %d more runs are lost: sending takes too long", len(ended) - number)
                return
            try:
                run_now(traces.send(header))
                failures = 0
            except StepwellError as error:
                failures += 1
                _logger.warning("the spans of run %s are lost: %s", header.run_id, error)
            except Exception:
                failures += 1
                _logger.exception("the spans of run %s are lost", header.run_id)

    return send


def ended_in(taken: Taken) -> Iterator[Header]:
    """The runs that ended in a batch."""
    for position, change in taken.left.values():
        if position < taken.done and isinstance(change, HeaderChanged) and change.after.status.terminal:
            yield change.after
