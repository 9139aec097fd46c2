"""An API that serves webhooks, and senders who sign: each signature is computed here, independently of the code."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping
from typing import Any

from stepwell.api.resolver import app_of
from stepwell.api.webhooks.route import webhook_routes
from stepwell.api.webhooks.sources import sources_of
from stepwell.definition.graph import Json
from stepwell.definition.webhooks import check_webhooks
from stepwell.memory.inbox import ALL_LANES
from stepwell.runtime.log.messages import Message, Publish, from_json
from stepwell.runtime.ports import Event
from stepwell.runtime.steps.secrets import EnvironmentSecrets, SecretsByKind
from tests.api.kit import START_MS, Reply, World, event

NOW = START_MS // 1_000
KEY = b"a key of 24 bytes or so."
STANDARD = "whsec_" + base64.b64encode(KEY).decode()
ENVIRONMENT = {
    "STANDARD": STANDARD,
    "OLD": "whsec_" + base64.b64encode(b"the key before it").decode(),
    "GITHUB": "It's a Secret to Everybody",
    "PLAIN": "plain secret\n",
    "EMPTY": "",
    "BLANK": "whsec_",
    "NOT_BASE64": "whsec_%" + base64.b64encode(b"a key").decode(),
}
SOURCES = """
sources:
  shop: {scheme: standard-webhooks, secret: [env:OLD, env:STANDARD], event: body.type, key: body.order,
         payload: body.data}
  github:
    scheme: github
    secret: env:GITHUB
    event: "'github.' + headers['x-github-event']"
    key: body.repository.full_name
  plain: {scheme: hmac, secret: env:PLAIN, header: X-Signature, event: "'plain'"}
  long: {scheme: hmac, secret: env:PLAIN, header: X-Signature, digest: sha512, encoding: base64, prefix: "v=",
         event: "'long'", id: string(body.number)}
  form: {scheme: hmac, secret: env:PLAIN, header: X-Signature, event: body.kind,
         payload: "{'body': body, 'query': query, 'headers': headers}"}
  starts: {scheme: standard-webhooks, secret: env:STANDARD, workflow: quick, input: "{'amount': body.amount}"}
  checked: {scheme: standard-webhooks, secret: env:STANDARD, workflow: order}
  noisy: {scheme: standard-webhooks, secret: env:STANDARD, workflow: quick,
          input: "{'at': headers['webhook-timestamp']}"}
  lost: {scheme: github, secret: [env:GONE, env:GITHUB], event: "'lost'"}
  empty: {scheme: hmac, secret: env:EMPTY, header: X-Signature, event: "'empty'"}
  broken: {scheme: standard-webhooks, secret: env:NOT_BASE64, event: "'broken'"}
  blank: {scheme: standard-webhooks, secret: env:BLANK, event: "'blank'"}
  loop: {scheme: hmac, secret: env:PLAIN, header: X-Signature, event: "'loop'",
         payload: "body.a.map(x, body.a.map(y, body.a.map(z, x + y + z)))"}
"""


class WebhookWorld(World):
    """The webhooks' handler alone: no other route is served by it."""

    def __init__(self, text: str = SOURCES, environ: Mapping[str, str] = ENVIRONMENT) -> None:
        super().__init__()
        found = check_webhooks(text)
        assert [one for one in found.problems if one.severity == "error"] == []
        self.secrets = SecretsByKind({"env": EnvironmentSecrets(environ)})
        self.sources = sources_of(found.document, self.secrets)
        self.app = app_of(self.parts, webhook_routes(lambda: self.sources))

    def deliver(self, source: str, body: str | bytes, headers: Mapping[str, str], query: str = "") -> Reply:
        return self.send(event("POST", f"/webhooks/{source}", body, headers=headers, query=query))

    @property
    def queued(self) -> list[Event]:
        """The events on the queue, taken from it; nothing else may be there."""
        messages = self.messages
        assert all(isinstance(message, Publish) for message in messages)
        return [message.event for message in messages if isinstance(message, Publish)]

    @property
    def messages(self) -> list[Message]:
        """All that is on the queue, taken from it."""
        found = []
        while (delivery := self.queue.receive(ALL_LANES, self.clock.now_ms(), 1)) is not None:
            found.append(from_json(delivery.message))
            self.queue.delete(delivery)
        return found


def standard(body: str | bytes, *, key: bytes = KEY, at: int | str = NOW, id: str = "msg_1") -> dict[str, str]:  # noqa: A002
    """Signed as the specification of Standard Webhooks says."""
    raw = body.encode() if isinstance(body, str) else body
    digest = hmac.new(key, f"{id}.{at}.".encode() + raw, hashlib.sha256).digest()
    return {
        "Webhook-Id": id,
        "Webhook-Timestamp": str(at),
        "Webhook-Signature": f"v1,{base64.b64encode(digest).decode()}",
    }


def github(body: str | bytes, *, key: str = ENVIRONMENT["GITHUB"], **headers: str) -> dict[str, str]:
    raw = body.encode() if isinstance(body, str) else body
    return {
        "X-Hub-Signature-256": "sha256=" + hmac.new(key.encode(), raw, hashlib.sha256).hexdigest(),
        "X-GitHub-Event": "push",
        "X-GitHub-Delivery": "72d3162e-cc78-11e3-81ab-4c9367dc0958",
        **headers,
    }


def plain(body: str | bytes, **headers: str) -> dict[str, str]:
    raw = body.encode() if isinstance(body, str) else body
    return {"X-Signature": hmac.new(b"plain secret", raw, hashlib.sha256).hexdigest(), **headers}


def told(reply: Reply) -> tuple[int, Json]:
    answer: Any = reply.json
    return reply.status, answer.get("code")
