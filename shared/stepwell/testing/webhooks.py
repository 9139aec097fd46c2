"""Webhooks in a test: raw calls as another system makes them, through the whole route."""

from __future__ import annotations

from collections.abc import Mapping

from stepwell.api.resolver import app_of
from stepwell.api.webhooks.route import webhook_routes
from stepwell.api.webhooks.sources import sources_of
from stepwell.definition.graph import Json
from stepwell.runtime.assembly import Assembly
from stepwell.runtime.steps.secrets import EnvironmentSecrets, SecretsByKind


class Webhooks:
    """The sources of a folder's `webhooks.yaml`, over the same store as the test's runs."""

    def __init__(self, parts: Assembly, sources: Mapping[str, Json] | None, secrets: Mapping[str, str]) -> None:
        """`secrets` are the values of the variables that the sources name as `env:NAME`."""
        found = sources_of(sources, SecretsByKind({"env": EnvironmentSecrets(secrets)}))
        self._app, self._parts = app_of(parts, webhook_routes(lambda: found)), parts

    @property
    def now_seconds(self) -> int:
        """The sender's clock, for signatures with a time."""
        return self._parts.ports.clock.now_ms() // 1_000

    def deliver(self, source: str, body: str, headers: Mapping[str, str]) -> int:
        """Sends the call; returns the answer's status."""
        http = {"method": "POST", "path": f"/webhooks/{source}", "sourceIp": "192.0.2.7"}
        call = {
            "version": "2.0",
            "rawPath": f"/webhooks/{source}",
            "rawQueryString": "",
            "headers": {"content-type": "application/json", **headers},
            "requestContext": {"http": http, "requestId": "1", "stage": "$default"},
            "body": body,
            "isBase64Encoded": False,
        }
        return int(self._app.resolve(call)["statusCode"])
