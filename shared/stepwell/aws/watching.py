"""Answers what watchers of the live feed do: connect with a ticket, ask for what they missed, go."""

from __future__ import annotations

import base64
import logging
from collections.abc import Mapping
from typing import Any

from stepwell.aws.live import Connections, Feed, open_feed
from stepwell.aws.wiring import Deployed
from stepwell.errors import Conflict, NotFound, UserError
from stepwell.limits import LIVE_WATCHERS
from stepwell.runtime.assembly import Assembly
from stepwell.runtime.calls.following import entries_since
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.notify.live import Topic, cursor_in, error_frame

_logger = logging.getLogger("stepwell.live")

Answer = Mapping[str, int]
DONE, BAD_MESSAGE, FORBIDDEN, TOO_MANY = ({"statusCode": status} for status in (200, 400, 403, 503))


class Watching:
    """The three routes of the WebSocket API."""

    def __init__(self, parts: Assembly, connections: Connections, feed: Feed) -> None:
        self._parts, self._connections, self._feed = parts, connections, feed

    def take(self, event: Mapping[str, Any]) -> Answer:
        """Answers an event of API Gateway. Raises PortError."""
        about = event["requestContext"]
        connection = str(about["connectionId"])
        match about["eventType"]:
            case "CONNECT":
                return self._connect(connection, event)
            case "DISCONNECT":
                self._connections.remove(connection)
                return DONE
            case _:
                return self._answer(connection, event)

    def _connect(self, connection: str, event: Mapping[str, Any]) -> Answer:
        """Refuses whoever has no ticket of this API's, before the WebSocket opens."""
        ticket = (event.get("queryStringParameters") or {}).get("ticket", "")
        links, now_ms = self._parts.links, self._parts.ports.clock.now_ms()
        if links is None:
            return FORBIDDEN
        try:
            link = links.stream(ticket, now_ms)
        except (NotFound, Conflict):
            return FORBIDDEN
        if len(self._connections.all(now_ms)) >= LIVE_WATCHERS:
            _logger.warning("a watcher was refused: there are %d", LIVE_WATCHERS)
            return TOO_MANY
        self._connections.add(connection, Topic(link.run_id, link.workflow), now_ms)
        return DONE

    def _answer(self, connection: str, event: Mapping[str, Any]) -> Answer:
        topic = self._connections.topic(connection)
        if topic is None:
            return FORBIDDEN
        try:
            frame = run_now(entries_since(self._parts.service, topic, cursor_in(_message(event))))
        except UserError as error:  # such as a cursor that is no entry's, or a run that is no more
            _logger.info("a watcher's message was refused: %s", error)
            self._feed.send(connection, error_frame(error))  # the status of the answer reaches nobody
            return BAD_MESSAGE
        self._feed.send(connection, frame)
        return DONE


def open_watching(aws: Deployed) -> Watching:
    """Raises UserError `bad_setting`."""
    if not aws.deployment.live_table:
        raise UserError("STEPWELL_LIVE_TABLE is not set", code="bad_setting", hint="the stack sets it: deploy again")
    return Watching(aws.parts, *open_feed(aws))


def _message(event: Mapping[str, Any]) -> str:
    body = event.get("body") or ""
    return base64.b64decode(body).decode("latin-1") if event.get("isBase64Encoded") else str(body)
