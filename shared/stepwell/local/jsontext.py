"""JSON values as text, as the local stores keep them: the one place that refuses what JSON cannot say."""

from __future__ import annotations

import json

from stepwell.definition.graph import Json
from stepwell.errors import InvalidInput

# ASCII: a lone surrogate, which JSON input may hold, is no valid UTF-8 and would be refused by SQLite.
_ENCODER = json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(",", ":"))


def encode(value: Json) -> str:
    """The value as compact JSON. Raises InvalidInput for anything that is not plain, finite JSON."""
    try:
        return _ENCODER.encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"not a JSON value: {error}", code="not_json") from error


def decode(text: str) -> Json:
    """The value of a text that `encode` made."""
    return json.loads(text)
