"""What takes several calls: the wait for a run's result, and that for its end."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

from stepwell.client.calls import linked, result_answer, view
from stepwell.client.errors import JsonObject, RunFailed
from stepwell.client.requests import Flow
from stepwell.limits import WAIT_ANSWER_SECONDS


def result(run_id: str, timeout: float | None = None) -> Flow[Any]:
    """Waits for the run's result. Raises RunFailed, or TimeoutError after `timeout` seconds.

    Long polls keep this at a few calls a minute.
    """
    until = None if timeout is None else time.monotonic() + timeout
    while True:
        left = WAIT_ANSWER_SECONDS if until is None else until - time.monotonic()
        answer, has_ended = yield result_answer(run_id, min(max(left, 0), WAIT_ANSWER_SECONDS))
        if has_ended:
            break
        if until is not None and time.monotonic() >= until:
            raise TimeoutError(f"run {run_id} is {answer['status']} after {timeout:g} seconds")
    found = answer["result"]
    link = _link(found)
    return found if not link else (yield linked(link))


def end(run_id: str, seconds: float) -> Flow[JsonObject]:
    """Waits until the run has ended or the time is up, and returns the run."""
    with suppress(RunFailed):  # it has ended
        yield result_answer(run_id, min(seconds, WAIT_ANSWER_SECONDS))
    found: JsonObject = yield view(run_id)
    return found


def _link(found: Any) -> str:
    """The link to a result that is too large for an answer: `{"large": {"bytes": …, "link": …}}`."""
    match found:
        case {"large": {"bytes": int(), "link": str(link)}} if len(found) == 1:
            return link
    return ""
