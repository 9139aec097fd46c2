"""Where to open the live feed.

Whoever may call `GET /stream` gets a WebSocket's address, because browsers can sign nothing for a WebSocket. On AWS the
address holds a signed ticket that is good for a minute.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias
from urllib.parse import urlencode

from pydantic import Field

from stepwell.api.exchange import Answer, Call, Route
from stepwell.api.requests import RUN_ID_PATTERN, Query
from stepwell.engine.names import iso
from stepwell.errors import InvalidInput, NotFound
from stepwell.limits import LIVE_TICKET_MS
from stepwell.runtime.calls.links import Links, StreamLink
from stepwell.runtime.notify.live import Topic

Address: TypeAlias = Callable[[Topic, int], str]  # of the WebSocket for a topic, opened before a time


class StreamQueryString(Query):
    run: str = Field("", description="one run", json_schema_extra={"pattern": f"^$|{RUN_ID_PATTERN}"})
    workflow: str = Field("", description="the runs of one workflow; neither: all runs")


def stream_routes(address: Address | None) -> tuple[Route, ...]:
    """Builds the route of a feed at `address`; None: this API has none."""

    async def get_stream(call: Call) -> Answer:
        """Answers with the address of the WebSocket."""
        asked = call.asked(StreamQueryString)
        if asked.run and asked.workflow:
            raise InvalidInput("`run` and `workflow` do not combine", code="two_topics", hint="send one of them")
        if address is None:
            raise NotFound("this API has no live feed", code="no_stream",
                           hint="poll with If-None-Match, or deploy the stack with `live: true`")  # fmt: skip
        if asked.run:
            await call.parts.service.header(asked.run)
        expires_ms = call.parts.ports.clock.now_ms() + LIVE_TICKET_MS
        url = address(Topic(asked.run, asked.workflow), expires_ms)
        return Answer(200, {"url": url, "expires_at": iso(expires_ms)}, headers={"Cache-Control": "no-store"})

    return (
        Route(
            "GET",
            "/stream",
            get_stream,
            "Where to watch a run, the runs of a workflow, or all runs: a WebSocket of history entries",
            {200: "the WebSocket's address", 404: "no such run, or no live feed"},
            "StreamView",
            query=StreamQueryString,
        ),
    )


def ticketed(websocket_url: str, links: Links) -> Address:
    """Returns addresses that only whoever was given them can open, and only in time."""

    def address(topic: Topic, expires_ms: int) -> str:
        ticket = links.stream_token(StreamLink(topic.run_id, topic.workflow, expires_ms))
        return f"{websocket_url}?{urlencode({'ticket': ticket})}"

    return address


def own_address(topic: Topic, expires_ms: int) -> str:
    """Returns the address of this very route, at a server that is one for both; relative, by whatever name it has."""
    asked = urlencode({name: value for name, value in (("run", topic.run_id), ("workflow", topic.workflow)) if value})
    return f"/stream{'?' if asked else ''}{asked}"
