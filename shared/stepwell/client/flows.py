"""What takes several calls: the wait for a run's result."""

from __future__ import annotations

import time
from typing import Any

from stepwell.client.requests import Flow
from stepwell.client.run_calls import linked, result_answer
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


def _link(found: Any) -> str:
    """The link to a result that is too large for an answer: `{"large": {"bytes": …, "link": …}}`."""
    match found:
        case {"large": {"bytes": int(), "link": str(link)}} if len(found) == 1:
            return link
    return ""
