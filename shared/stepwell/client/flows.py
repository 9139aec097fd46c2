"""What takes several calls: to wait for a result or an answer, and to read values that are too large for an answer."""

from __future__ import annotations

import math
import re
import time
from typing import Any

from stepwell.client.errors import UpdateFailed
from stepwell.client.requests import Flow
from stepwell.client.run_calls import (
    linked,
    query_answer,
    result_answer,
    route_answer,
    send_update,
    update_answer,
    value_answer,
)
from stepwell.errors import InvalidInput
from stepwell.limits import WAIT_ANSWER_SECONDS

_OWN = re.compile(r"/runs/[^/?]+/(?:result|value\?[^#]*)")  # a link that the API itself hands a value out at
_AS_IT_IS = re.compile(r"[?&]blob=")  # in one: the value is the user's, whatever it looks like


def result(run_id: str, timeout: float | None = None) -> Flow[Any]:
    """Waits for the run's result. Raises RunFailed, TimeoutError after `timeout` seconds, InvalidInput if it is NaN.

    A server that is away or busy does not make it longer. Long polls keep this at a few calls a minute.
    """
    if timeout is not None and (not isinstance(timeout, int | float) or math.isnan(timeout)):
        raise InvalidInput(f"the timeout of a result cannot be {timeout!r}", code="bad_value",
                           hint="give seconds as a number, or None to wait for as long as it takes")  # fmt: skip
    until = None if timeout is None else time.monotonic() + timeout
    while True:
        left = WAIT_ANSWER_SECONDS if until is None else until - time.monotonic()
        answer, has_ended = yield result_answer(run_id, min(max(left, 0), WAIT_ANSWER_SECONDS), until)
        if has_ended:
            break
        if until is not None and time.monotonic() >= until:
            raise TimeoutError(f"run {run_id} is {answer['status']} after {timeout:g} seconds")
    return (yield from _followed(answer["result"]))


def query(run_id: str, name: str) -> Flow[Any]:
    """Calls a query handler of a durable function."""
    found = yield query_answer(run_id, name)
    return (yield from _followed(found["value"]))


def update(run_id: str, name: str, given: Any = None, *, id: str | None = None) -> Flow[Any]:  # noqa: A002 - the API's own word
    """Calls an update handler and waits for its answer, for as long as it takes. Raises UpdateFailed."""
    found = yield send_update(run_id, name, given, id=id)
    while found["pending"]:
        found = yield update_answer(run_id, name, found["update_id"])
    if found["error"] is not None:
        raise UpdateFailed(found["error"])
    return (yield from _followed(found["output"]))


def value(
    run_id: str, path: str, *, entry: str = "", token: str = "", at: int | None = None, graph: bool = False
) -> Flow[Any]:
    """Reads one value of the run, however large. `path`: a JSON Pointer into its view, such as `/state/report`.

    Or into an `entry` of its history, into a branch (`token`), its state `at` a slot, or its `graph`.
    """
    within = {"entry": entry, "token": token, "at": at, "graph": "true" if graph else ""}
    return (yield from _followed((yield value_answer(run_id, path, within))))


def whole(answer: Any) -> Flow[Any]:
    """Reads what is too large for an answer: returns the answer, or a part of it, with each such value in its place."""
    link = _link(answer)
    if _OWN.fullmatch(link):  # a value of a user's may look like a link, and may lead anywhere
        found = yield route_answer(link)
        return found if _AS_IT_IS.search(link) else (yield from _followed(found))
    if isinstance(answer, dict):
        made: Any = {}
        for name, one in answer.items():
            made[name] = yield from whole(one)
        return made
    if isinstance(answer, list):
        made = []
        for one in answer:
            made.append((yield from whole(one)))
        return made
    return answer


def _followed(found: Any) -> Flow[Any]:
    """Reads a value from the link that stands for it: a signed one, or the API's own where nothing signs links."""
    link = _link(found)
    if not link:
        return found
    return (yield route_answer(link) if _OWN.fullmatch(link) else linked(link))


def _link(found: Any) -> str:
    """The link to a value that is too large for an answer: `{"large": {"bytes": …, "link": …}}`."""
    match found:
        case {"large": {"bytes": int(), "link": str(link)}} if len(found) == 1:
            return link
    return ""
