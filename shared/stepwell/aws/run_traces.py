"""Spans of runs that have ended, sent from the stream, after the fact."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from stepwell.aws.changes import HeaderChanged
from stepwell.errors import StepwellError
from stepwell.runtime.loop.driving import run_now

if TYPE_CHECKING:
    from stepwell.aws.streaming import Taken
    from stepwell.aws.wiring import Deployed
    from stepwell.runtime.ports.headers import Header

_logger = logging.getLogger("stepwell.traces")


def traces_of(aws: Deployed) -> Callable[[Taken], None]:
    """Returns what sends the spans of a batch; nothing is imported or sent unless the stack names an endpoint."""
    if not aws.deployment.sends_spans:
        return lambda taken: None
    from stepwell.otel import open_traces  # noqa: PLC0415 - the SDK, only where it is asked for

    traces = open_traces(aws.parts.service)

    def send(taken: Taken) -> None:
        for header in ended_in(taken):
            try:
                run_now(traces.send(header))
            except StepwellError as error:
                _logger.warning("the spans of run %s are lost: %s", header.run_id, error)

    return send


def ended_in(taken: Taken) -> Iterator[Header]:
    """The runs that ended in a batch."""
    for position, change in taken.left.values():
        if position < taken.done and isinstance(change, HeaderChanged) and change.after.status.terminal:
            yield change.after
