"""Webhooks in a test: raw calls as another system makes them, through the whole route."""

from __future__ import annotations

import json
from collections.abc import Mapping

from stepwell.api.resolver import app_of
from stepwell.api.webhooks.route import webhook_routes
from stepwell.api.webhooks.sending import Signed, sign
from stepwell.api.webhooks.sources import Source, sources_of
from stepwell.definition.graph import Json
from stepwell.runtime.assembly import Assembly
from stepwell.runtime.steps.secrets import EnvironmentSecrets, SecretsByKind

_HOST = "127.0.0.1"


class Webhooks:
    """The sources of a folder's `webhooks.yaml`, over the same store as the test's runs."""

    def __init__(self, parts: Assembly, sources: Mapping[str, Json] | None, secrets: Mapping[str, str]) -> None:
        """`secrets` are the values of the variables that the sources name as `env:NAME`."""
        self._sources = found = sources_of(sources, SecretsByKind({"env": EnvironmentSecrets(secrets)}))
        self._app, self._parts = app_of(parts, webhook_routes(lambda: found)), parts
        self._sent = 0

    @property
    def now_seconds(self) -> int:
        """The sender's clock, for signatures with a time."""
        return self._parts.ports.clock.now_ms() // 1_000

    def deliver(self, source: str, body: Json, headers: Mapping[str, str] | None = None) -> int:
        """Sends the call; returns the answer's status.

        `body` is sent as JSON, and text as it is. The call is signed with the source's secret, unless `headers` have a
        signature. Raises PortError if `secrets` lack the secret.
        """
        text = body if isinstance(body, str) else json.dumps(body)
        given = {"content-type": "application/json", **{name.lower(): one for name, one in (headers or {}).items()}}
        signed = self._signed(source, text, given)
        return self._post(source, text, {"host": _HOST, **signed.headers, **given}, signed.query)

    def _signed(self, name: str, text: str, headers: Mapping[str, str]) -> Signed:
        """Returns what the sender adds; nothing for a call with a signature of its own, or to an unknown source."""
        source = self._sources.get(name)
        if source is None or _has_signature(source, headers):
            return Signed(text.encode())
        self._sent += 1
        now_ms, delivery = self._parts.ports.clock.now_ms(), f"test-{self._sent}"
        return sign(source, text.encode(), headers["content-type"], host=_HOST, delivery_id=delivery, now_ms=now_ms)

    def _post(self, source: str, text: str, headers: Mapping[str, str], query: str) -> int:
        http = {"method": "POST", "path": f"/webhooks/{source}", "sourceIp": "192.0.2.7"}
        call = {
            "version": "2.0",
            "rawPath": f"/webhooks/{source}",
            "rawQueryString": query,
            "headers": headers,
            "requestContext": {"http": http, "requestId": "1", "stage": "$default"},
            "body": text,
            "isBase64Encoded": False,
        }
        return int(self._app.resolve(call)["statusCode"])


def _has_signature(source: Source, headers: Mapping[str, str]) -> bool:
    """Tells whether the source's scheme may sign in this header."""
    names = [one.header for one in source.signings if one.header]
    return any(header.startswith(name) for name in names for header in headers)
