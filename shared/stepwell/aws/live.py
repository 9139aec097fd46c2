"""The live feed on AWS: who watches, in a table of their own, and what the stream function sends them.

browser ── $connect ?ticket=… ──▶ live function ──▶ connections table
                                                         │ one read a second
table's stream ─────────────────▶ stream function ───────┴──▶ API Gateway ──▶ browser

A run that nobody watches costs no write. Nothing waits for a watcher: what cannot be sent is logged, and the watcher
reads it when it asks for what follows its cursor.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence

from stepwell.aws.failures import code_of
from stepwell.aws.protocols import Item, LiveClient
from stepwell.aws.store import keys
from stepwell.aws.store.items import EXPIRES, text, ttl
from stepwell.aws.store.table import Table
from stepwell.aws.wiring import Deployed
from stepwell.errors import PortError
from stepwell.limits import HOUR_MS, SECOND_MS
from stepwell.runtime.notify.live import Topic, frames_of, live_entry
from stepwell.runtime.notify.telling import Notice

_logger = logging.getLogger("stepwell.live")

CONNECTED_MS = 3 * HOUR_MS  # a connection's item; API Gateway ends a connection after two hours
LOOKED_SECONDS = 1.0  # for so long the stream function remembers who watches
SENDING_SECONDS = 5.0  # of one batch; what is left is for the watchers to ask for
_WATCHERS = "WATCHERS"  # one partition, so that one query reads them


class Connections:
    """Who watches what. One write when a watcher connects, one when it goes."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def add(self, connection: str, topic: Topic, now_ms: int) -> None:
        """Raises PortError."""
        self._table.put_new({
            **_key(connection),
            "run": text(topic.run_id),
            "workflow": text(topic.workflow),
            EXPIRES: ttl(now_ms + CONNECTED_MS),
        })  # fmt: skip

    def remove(self, connection: str) -> None:
        """Raises PortError."""
        self._table.delete(_key(connection))

    def topic(self, connection: str) -> Topic | None:
        """Returns what a connection watches. Raises PortError."""
        item = self._table.get(_key(connection))
        return None if item is None else _topic(item)

    def all(self, now_ms: int = 0) -> dict[str, Topic]:
        """Returns the connections with what they watch, but those that have ended by now. Raises PortError.

        API Gateway does not tell of each end, and DynamoDB deletes an item days after it has expired.
        """
        found = self._table.query(f"{keys.PARTITION} = :watchers", {":watchers": _WATCHERS})
        return {item[keys.SORT]["S"]: _topic(item) for item in found
                if int(item[EXPIRES]["N"]) * SECOND_MS > now_ms}  # fmt: skip


class Feed:
    """Sends frames to connections."""

    def __init__(
        self,
        connections: Connections,
        client: Callable[[], LiveClient],
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connections, self._client, self._seconds = connections, client, seconds
        self._watchers: Mapping[str, Topic] = {}
        self._looked_at = float("-inf")

    def tell(self, notices: Sequence[Notice]) -> None:
        """Sends what was committed to those who watch it. Raises nothing for a service that fails."""
        until = self._seconds() + SENDING_SECONDS
        entries = [live_entry(notice) for notice in notices]
        for connection, topic in list(self._look().items()) if entries else ():
            wanted = [one for one in entries if topic.wants(one.run_id, one.workflow)]
            for frame in frames_of(wanted):
                if self._seconds() >= until:
                    _logger.warning("watchers get no more of this batch: sending takes too long")
                    return
                if not self.send(connection, frame):
                    break

    def send(self, connection: str, frame: str) -> bool:
        """Sends a frame. Returns False if it did not arrive; a connection that is gone is removed."""
        try:
            self._client().post_to_connection(ConnectionId=connection, Data=frame.encode(errors="surrogatepass"))
        except Exception as error:  # botocore's, which only the first call loads
            if code_of(error) == "GoneException":
                self._forget(connection)
            else:
                _logger.warning("a watcher was not reached: %s", error)
            return False
        return True

    def _look(self) -> Mapping[str, Topic]:
        """Returns who watches, as of a second ago at most."""
        if self._seconds() - self._looked_at >= LOOKED_SECONDS:
            try:
                self._watchers = self._connections.all()
            except PortError as error:
                _logger.warning("who watches cannot be read: %s", error)
                self._watchers = {}
            self._looked_at = self._seconds()
        return self._watchers

    def _forget(self, connection: str) -> None:
        self._watchers = {one: topic for one, topic in self._watchers.items() if one != connection}
        try:
            self._connections.remove(connection)
        except PortError as error:
            _logger.warning("a watcher that is gone stays in the table until its item expires: %s", error)


def open_feed(aws: Deployed) -> tuple[Connections, Feed]:
    """Opens the feed of a stack that has one."""
    deployment, clients = aws.deployment, aws.clients
    connections = Connections(Table(deployment.live_table, clients.dynamodb, aws.parts.ports.blobs))
    return connections, Feed(connections, lambda: clients.live(deployment.live_callback))


def _key(connection: str) -> Item:
    return keys.key(_WATCHERS, connection)


def _topic(item: Item) -> Topic:
    return Topic(item["run"]["S"], item["workflow"]["S"])
