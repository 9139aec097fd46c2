"""Sends notifications to their endpoints, signed as Standard Webhooks says, and decides on retries.

2xx                              taken
429, 5xx, no answer in time      again, later and later, for about a day; then dead
other answers, a host refused    again a few times; then dead
410                              gone: nothing more is sent to the endpoint by this process
"""

from __future__ import annotations

import base64
import hmac
import logging
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum

from stepwell.definition.targets import Hosts, parse_url
from stepwell.errors import PortError
from stepwell.limits import NOTIFICATION_DELAYS_MS, NOTIFICATION_MS, NOTIFICATION_REFUSALS, SECOND_MS
from stepwell.runtime.notify.endpoints import Endpoint, Notification
from stepwell.runtime.ports import Clock
from stepwell.runtime.steps.failures import CallError
from stepwell.runtime.steps.http_call import Answer, Deadline, Network, Sending, send
from stepwell.runtime.steps.retry_after import retry_after_ms
from stepwell.runtime.steps.secrets import Secrets, base64_key
from stepwell.runtime.steps.threads import AttemptTimeoutError
from stepwell.runtime.stores.jsontext import encode
from stepwell.values import dataclass

_logger = logging.getLogger("stepwell.webhooks")

GONE = 410
_BUSY = frozenset({408, 425, 429})
_SPREAD = 0.2  # share of a delay: tries that failed together are not repeated together
_OURS = frozenset({"step", "validation"})  # categories of errors that a retry alone does not cure


class Fate(StrEnum):
    """The result of trying to send a notification."""

    TAKEN = "taken"
    AGAIN = "again"
    DEAD = "dead"
    GONE = "gone"  # its endpoint wants no more, or does not exist any more


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a try. `notification`: as it is to be retried, or kept in the dead-letter queue."""

    fate: Fate
    notification: Notification
    why: str = ""


@dataclass(frozen=True, slots=True)
class _Failed:
    why: str
    refused: bool
    after_ms: int = 0  # the Retry-After of the endpoint


class Sender:
    """Sends notifications one by one, for any number of threads. `hosts`: those that may be called."""

    def __init__(
        self,
        endpoints: Mapping[str, Endpoint],
        secrets: Secrets,
        hosts: Hosts,
        clock: Clock,
        *,
        jitter: Callable[[], float] = random.random,
        network: Network | None = None,
    ) -> None:
        self._secrets, self._hosts, self._clock, self._jitter = secrets, hosts, clock, jitter
        self._network = network or Network()
        self.replace(endpoints)

    def replace(self, endpoints: Mapping[str, Endpoint]) -> None:
        """Replaces the endpoints; those that were gone are tried again."""
        self._endpoints = dict(endpoints)
        self._gone: set[str] = set()

    def send(self, notification: Notification) -> Verdict:
        """Tries once, unless it is too early."""
        endpoint = self._endpoints.get(notification.endpoint)
        if endpoint is None or endpoint.name in self._gone:
            return Verdict(
                Fate.GONE, notification, "there is no such endpoint" if endpoint is None else "it has said so"
            )
        if notification.at_ms > self._clock.now_ms():
            return Verdict(Fate.AGAIN, notification)
        failed = self._try(endpoint, notification)
        if failed is None:
            return Verdict(Fate.TAKEN, notification)
        if endpoint.name in self._gone:
            return Verdict(Fate.GONE, notification, failed.why)
        return self._after(notification, failed)

    def _try(self, endpoint: Endpoint, notification: Notification) -> _Failed | None:
        try:
            answer = self._answer(endpoint, notification)
        except AttemptTimeoutError:
            return _Failed(f"no answer within {NOTIFICATION_MS // SECOND_MS} s", refused=False)
        except CallError as error:
            return _Failed(str(error), refused=error.category in _OURS)
        except PortError as error:
            return _Failed(str(error), refused=False)
        status = answer.status
        if 200 <= status < 300:
            return None
        if status == GONE:
            _logger.error("endpoint %s answered 410: it is sent nothing more until the next deploy", endpoint.name)
            self._gone.add(endpoint.name)
        after_ms = retry_after_ms(status, answer.headers, self._clock.now_ms())
        return _Failed(f"it answered {status}", status < 500 and status not in _BUSY, after_ms)

    def _answer(self, endpoint: Endpoint, notification: Notification) -> Answer:
        named = parse_url(endpoint.url)
        target = self._hosts.called(named)
        if target is None:
            raise CallError("http_host", "step", self._hosts.refusal(named))
        body = encode(notification.content).encode()
        seconds = self._clock.now_ms() // SECOND_MS
        keys = self._keys(endpoint)
        headers = {
            "User-Agent": "stepwell",
            "Accept": "*/*",
            "Accept-Encoding": "identity",
            "Connection": "close",
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            "webhook-id": notification.id,
            "webhook-timestamp": str(seconds),
            "webhook-signature": signatures(keys, notification.id, seconds, body),
        }
        deadline = Deadline(time.monotonic, NOTIFICATION_MS / SECOND_MS)
        return send(Sending("POST", target, headers, body, wants_body=False), self._network, deadline)

    def _keys(self, endpoint: Endpoint) -> list[bytes]:
        """Returns the keys of all secrets that are available. Raises PortError if none is."""
        keys: list[bytes] = []
        failures: list[PortError] = []
        for reference in endpoint.references:
            try:
                keys.append(base64_key(self._secrets.get(reference), reference))
            except PortError as error:
                failures.append(error)
        if not keys:
            raise failures[0]
        for failure in failures:
            _logger.warning("endpoint %s is sent to without one of its secrets: %s", endpoint.name, failure)
        return keys

    def _after(self, notification: Notification, failed: _Failed) -> Verdict:
        tried = replace(notification, tries=notification.tries + 1, refusals=notification.refusals + failed.refused)
        if tried.tries > len(NOTIFICATION_DELAYS_MS) or tried.refusals >= NOTIFICATION_REFUSALS:
            return Verdict(Fate.DEAD, tried, failed.why)
        delay_ms = NOTIFICATION_DELAYS_MS[tried.tries - 1] * (1 + _SPREAD * self._jitter())
        asked_ms = min(failed.after_ms, NOTIFICATION_DELAYS_MS[-1])  # an endpoint may ask for a year
        at_ms = self._clock.now_ms() + max(int(delay_ms), asked_ms)
        return Verdict(Fate.AGAIN, replace(tried, at_ms=at_ms), failed.why)


def signatures(keys: Sequence[bytes], notification_id: str, seconds: int, body: bytes) -> str:
    """Returns the header `webhook-signature`: one signature for each key, separated by spaces."""
    text = f"{notification_id}.{seconds}.".encode() + body
    return " ".join(f"v1,{base64.b64encode(hmac.digest(key, text, 'sha256')).decode()}" for key in keys)
