"""The deliveries of the dev server to each endpoint: a queue and two senders of its own, all queues in one file.

What hangs holds up its own deliveries only:

    posted ──▶ crm   ──▶ 2 senders ──▶ https://crm.…      does not answer: its own deliveries wait
           ──▶ books ──▶ 2 senders ──▶ https://books.…    goes on
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Sequence

from stepwell.errors import EngineFault, StepwellError
from stepwell.limits import MINUTE_MS, SECOND_MS
from stepwell.local.database import Database
from stepwell.local.sqlite_queue import SEND, SqliteQueue
from stepwell.memory.inbox import Delivery
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.notify.endpoints import Notification, notification_json, notification_of
from stepwell.runtime.notify.sender import Fate, Sender
from stepwell.runtime.ports import Clock, Lane
from stepwell.runtime.stores.jsontext import encode

_logger = logging.getLogger("stepwell.webhooks")

SENDERS = 2  # threads of each endpoint
LEASE_MS = MINUTE_MS  # longer than an endpoint's time limit
LOOK_SECONDS = 1.0  # at the latest
_LANE = Lane.RESUME
_QUEUES = "SELECT lane, count(*) FROM messages GROUP BY lane"
_DROP = "DELETE FROM messages WHERE lane = ?"
_GIVE_EACH_ITS_OWN = """UPDATE messages SET lane = lane || ':' || coalesce(json_extract(message, '$.endpoint'), '')
    WHERE lane = ?"""


def adopt(database: Database) -> None:
    """Moves the deliveries of older releases, which had one queue for all endpoints, to the endpoints' queues."""
    database.change(_GIVE_EACH_ITS_OWN, (_LANE.value,))


def drop_others(database: Database, endpoints: Collection[str]) -> None:
    """Drops the deliveries to endpoints that do not exist any more."""
    known = {_lane_of(name) for name in endpoints}
    for lane, count in database.rows(_QUEUES):
        if lane not in known:
            _logger.error("webhook %s: there is no such endpoint; its notifications are dropped: %d",
                          lane.partition(":")[2], count)  # fmt: skip
            database.change(_DROP, (lane,))


def post_all(database: Database, clock: Clock, notifications: Sequence[Notification]) -> None:
    """Queues each notification for its endpoint, all in one commit. Raises PortError."""
    now_ms = clock.now_ms()
    with database.transaction() as execute:
        for one in notifications:
            execute(SEND, (_lane_of(one.endpoint), now_ms, encode(notification_json(one))))


class EndpointQueue:
    """The deliveries to one endpoint, and the threads that send them."""

    def __init__(self, name: str, database: Database, sender: Sender, clock: Clock, stopping: threading.Event) -> None:
        self._name, self._sender, self._clock, self._stopping = name, sender, clock, stopping
        self._queue = SqliteQueue(database, clock, name)
        self._posted = threading.Condition()
        self._has_ended = False

    def start(self) -> None:
        for number in range(SENDERS):
            threading.Thread(target=self._work, name=f"stepwell-sender-{self._name}-{number}", daemon=True).start()

    def wake(self) -> None:
        """Has the senders look for a delivery that was just posted."""
        with self._posted:
            self._posted.notify_all()

    def end(self) -> None:
        """Ends the senders, after what they send now: the endpoint does not exist any more."""
        self._has_ended = True
        self.wake()

    def _work(self) -> None:
        while not (self._has_ended or self._stopping.is_set()):
            try:
                if self._send_next():
                    continue
            except StepwellError as error:
                if not self._stopping.is_set():  # otherwise its file is closed
                    _logger.warning("notifications are sent later: %s", error)
            except Exception:  # else the endpoint would have one sender less, and soon none
                _logger.exception("a notification to %s is sent later", self._name)
            with self._posted:
                if not self._has_ended:
                    self._posted.wait(LOOK_SECONDS)

    def _send_next(self) -> bool:
        """Sends one due delivery; returns False if there is none."""
        delivery = self._queue.receive((_LANE,), self._clock.now_ms(), LEASE_MS)
        if delivery is None:
            return False
        try:
            self._send(delivery)
        except (TypeError, EngineFault):
            _logger.exception("a message that is no notification is dropped")
        self._queue.delete(delivery)
        return True

    def _send(self, delivery: Delivery) -> None:
        verdict = self._sender.send(notification_of(delivery.message))
        notification = verdict.notification
        if verdict.fate is Fate.AGAIN:
            seconds = (notification.at_ms - self._clock.now_ms()) / SECOND_MS
            _logger.warning("webhook %s: %s; it is sent again in %.0f s", notification.endpoint, verdict.why, seconds)
            run_now(self._queue.send(_LANE, notification_json(notification), notification.at_ms))
        elif verdict.fate is not Fate.TAKEN:
            _logger.error(
                "webhook %s: %s; notification %s is dropped", notification.endpoint, verdict.why, notification.id
            )


def _lane_of(endpoint: str) -> str:
    return f"{_LANE.value}:{endpoint}"
