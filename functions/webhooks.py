"""The webhook handler: calls of other systems, proved by their signatures."""

from __future__ import annotations

from typing import Any

from stepwell.api.resolver import app_of
from stepwell.api.webhooks.route import webhook_routes
from stepwell.api.webhooks.sources import sources_of
from stepwell.aws.entry import open_entry
from stepwell.aws.packed import package_root, read_packed
from stepwell.aws.secrets import secrets_of

ROOT = package_root()

entry = open_entry(ROOT)
_secrets = secrets_of(entry.aws.clients, entry.parts.ports.clock)
_sources = sources_of(read_packed(ROOT).get("webhooks"), _secrets)
app = app_of(entry.parts, webhook_routes(lambda: _sources))


@entry.observing.invocation
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    return app.resolve(event)
