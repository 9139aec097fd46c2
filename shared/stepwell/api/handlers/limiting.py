"""Handlers of limits: which there are, who holds their permits, and who waits for one."""

from __future__ import annotations

from stepwell.api.exchange import Answer, Call, Route
from stepwell.api.handlers.asking import page_of_all
from stepwell.api.limits import limit_view, line_view
from stepwell.api.requests import LimitQueryString, WholeListQueryString
from stepwell.errors import InvalidInput
from stepwell.runtime.calls.limiting import RUNS, Limiting


async def list_limits(call: Call) -> Answer:
    asked = call.asked(WholeListQueryString)
    limiting = _limiting(call)
    items = [limit_view(one, None if one.has_key else await limiting.line(one)) for one in limiting.all()]
    return page_of_all([*items], asked)


async def show_limit(call: Call) -> Answer:
    asked = call.asked(LimitQueryString)
    limiting = _limiting(call)
    known = limiting.named(call.path["name"], asked.of)
    if asked.key and known.of == RUNS and not known.has_key:
        raise InvalidInput(f"the limit of {known.name} has no key: it is one line for all runs", code="no_key",
                           hint="leave the key out")  # fmt: skip
    line = await limiting.line(known, asked.key)
    return Answer(200, line_view(line, asked.cursor, asked.limit))


def _limiting(call: Call) -> Limiting:
    ports = call.parts.ports
    return Limiting(ports.notes, call.parts.catalog, ports.clock)


LIMITING_ROUTES = (
    Route("GET", "/limits", list_limits, "List the limits of steps and of runs", {200: "all of them, or a page"},
          "LimitPage", query=WholeListQueryString),
    Route("GET", "/limits/{name}", show_limit, "Show who holds the permits of a limit, and who waits for one",
          {200: "the limit; a page of those who wait", 404: "no such limit",
           422: "it counts by key, and none is named; or it has none"}, "LineView", query=LimitQueryString),
)  # fmt: skip
