"""The API's door: HTTP calls that API Gateway has let in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from stepwell.api.routes import create_app
from stepwell.aws.entry import open_door

door = open_door(Path(__file__).parent.parent)
app = create_app(door.parts)


@door.observing.invocation
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    return app.resolve(event, context)
