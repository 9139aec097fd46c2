"""The API handler: HTTP calls that API Gateway has authorized."""

from __future__ import annotations

from typing import Any

from stepwell.api.console import console_routes, login_of, origin_of
from stepwell.api.live import stream_routes, ticketed
from stepwell.api.routes import create_app
from stepwell.api.webhooks.replay import delivery_routes
from stepwell.api.webhooks.sources import sources_of
from stepwell.aws.entry import open_entry
from stepwell.aws.packed import package_root, read_packed
from stepwell.runtime.steps.secrets import SecretsByKind

ROOT = package_root()

entry = open_entry(ROOT)
_sources = sources_of(
    read_packed(ROOT).get("webhooks"), SecretsByKind({})
)  # without secrets, because stored deliveries were verified on arrival
_links, _live_url = entry.parts.links, entry.deployment.live_url
_address = ticketed(_live_url, _links) if _live_url and _links else None
_login = login_of(entry.deployment.console)
_console = console_routes(_login, origin_of(_live_url)) if _login else ()
app = create_app(entry.parts, (*delivery_routes(lambda: _sources), *stream_routes(_address), *_console))


@entry.observing.invocation
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    return app.resolve(event)
