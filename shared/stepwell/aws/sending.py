"""The start of the sender, and its handling of each queued delivery. It has no access to runs or the table."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

from stepwell.aws.batches import Delivery
from stepwell.aws.clients import open_clients
from stepwell.aws.notifications import NotificationQueue
from stepwell.aws.observing import Observing
from stepwell.aws.packed import read_packed
from stepwell.aws.secrets import secrets_of
from stepwell.definition.targets import parse_hosts
from stepwell.errors import UserError
from stepwell.runtime.notify.endpoints import endpoints_of, notification_of
from stepwell.runtime.notify.sender import Fate, Sender
from stepwell.runtime.stores.clocks import RealClock
from stepwell.settings import read_deployment
from stepwell.values import dataclass

_logger = logging.getLogger("stepwell.webhooks")

_COUNTED = {
    Fate.TAKEN: "WebhooksTaken",
    Fate.AGAIN: "WebhooksPutOff",
    Fate.DEAD: "WebhooksDead",
    Fate.GONE: "WebhooksGone",
}


@dataclass(frozen=True, slots=True)
class Office:
    """Sends queued deliveries, and queues retries and failures."""

    sender: Sender
    queue: NotificationQueue
    dead: NotificationQueue
    observing: Observing

    def take(self, delivery: Delivery) -> None:
        """Sends one delivery. If this raises, SQS delivers the message again."""
        notification = notification_of(delivery.message())
        with self.observing.about(endpoint=notification.endpoint, webhook_id=notification.id):
            verdict = self.sender.send(notification)
            if verdict.why:
                level = logging.ERROR if verdict.fate is Fate.DEAD else logging.WARNING
                _logger.log(level, "try %d: %s (%s)", verdict.notification.tries, verdict.why, verdict.fate)
            if verdict.fate is Fate.AGAIN:
                self.queue.post(verdict.notification)
            elif verdict.fate is Fate.DEAD:
                self.dead.post(replace(verdict.notification, tries=0, refusals=0))  # fresh counters for a later redrive
        if verdict.fate is not Fate.AGAIN or verdict.why:  # otherwise it was only delayed
            self.observing.count(_COUNTED[verdict.fate])


def open_office(root: Path) -> Office:
    """Assembles the sender; `root` is its package. Raises UserError, EngineFault for a bad stack."""
    deployment, clients, clock = read_deployment(), open_clients(), RealClock()
    if not (deployment.notifications and deployment.dead_notifications):
        raise UserError("STEPWELL_NOTIFICATIONS or STEPWELL_DEAD_NOTIFICATIONS is not set", code="bad_setting",
                        hint="the stack sets it: deploy again")  # fmt: skip
    clients.sqs()  # created now, while the function has a full CPU
    endpoints = endpoints_of(read_packed(root).get("webhooks"))
    sender = Sender(endpoints, secrets_of(clients, clock), parse_hosts(deployment.http_hosts), clock)
    queue, dead = (
        NotificationQueue(url, clients.sqs, clock) for url in (deployment.notifications, deployment.dead_notifications)
    )
    return Office(sender, queue, dead, Observing(deployment.log_level, {}, trace=deployment.trace))
