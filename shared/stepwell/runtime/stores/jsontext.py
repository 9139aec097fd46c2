"""JSON values as text, as stores and queues keep them: the one place that refuses what is not JSON."""

from __future__ import annotations

import json
import re

from stepwell.definition.graph import Json
from stepwell.engine.stored.jsons import fast_encoder, read
from stepwell.errors import InvalidInput

_as_it_is = fast_encoder(json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")))
_ODD = re.compile("[\ud800-\udfff\ufffe\uffff]")  # halves of surrogate pairs, and what SQS does not accept
_ascii = fast_encoder(json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(",", ":")))


def encode(value: Json) -> str:
    """Returns the value as compact JSON. Raises InvalidInput for anything that is not plain, finite JSON.

    The text is UTF-8, which costs by the byte; ASCII if it holds what UTF-8 (half a surrogate pair) or SQS (U+FFFE,
    U+FFFF) does not accept.
    """
    try:
        text = _as_it_is(value)
        if text.isascii() or not _ODD.search(text):
            return text
        return _ascii(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"not a JSON value: {error}", code="not_json") from error


def decode(text: str) -> Json:
    """Returns the value of a text that `encode` made."""
    found: Json = read(text)
    return found
