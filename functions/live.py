"""The live handler: the WebSockets of those who watch runs."""

from __future__ import annotations

from typing import Any

from stepwell.aws.entry import Context, open_entry
from stepwell.aws.packed import package_root
from stepwell.aws.watching import open_watching

entry = open_entry(package_root())
watching = open_watching(entry.aws)


@entry.observing.invocation
def handler(event: dict[str, Any], context: Context) -> dict[str, int]:
    """Answers a connect, a message or a disconnect of API Gateway's."""
    return dict(watching.take(event))
