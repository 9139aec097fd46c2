"""Which web pages may call the API from a browser: the property `cors_origins`, on AWS and in `stepwell dev`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from stepwell.errors import UserError

HEADERS = (  # that a page may send
    "authorization", "content-type", "idempotency-key", "if-none-match", "traceparent",
    "x-amz-date", "x-amz-security-token", "x-api-key",
)  # fmt: skip
EXPOSED = ("etag", "location", "retry-after")  # that a page may read
KEPT_SECONDS = 600  # a browser asks again whether it may
_ORIGIN = re.compile(r"https?://[A-Za-z0-9.-]+(:\d{1,5})?")


def cors_origins(properties: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the origins of `cors_origins`: a list, or text with commas. Raises UserError `bad_origin`."""
    found = properties.get("cors_origins", [])
    texts = [text.strip() for text in found.split(",") if text.strip()] if isinstance(found, str) else found
    if not isinstance(texts, Sequence) or not all(isinstance(one, str) for one in texts):
        raise UserError("cors_origins is not a list of origins", code="bad_origin")
    for one in texts:
        if one != "*" and not _ORIGIN.fullmatch(one):
            raise UserError(f"cors_origins: {one!r} is not an origin such as https://shop.example.com",
                            code="bad_origin", hint="an origin has no path and no slash at its end")  # fmt: skip
    return tuple(texts)


def answer_headers(origins: Sequence[str], origin: str) -> Mapping[str, str]:
    """Returns what an answer to a page of this origin says, as API Gateway does; nothing if it may not read it."""
    if not origin or not {origin, "*"} & {*origins}:
        return {}
    return {
        "Access-Control-Allow-Origin": "*" if "*" in origins else origin,
        "Access-Control-Allow-Methods": "GET, POST, DELETE",
        "Access-Control-Allow-Headers": ", ".join(HEADERS),
        "Access-Control-Expose-Headers": ", ".join(EXPOSED),
        "Access-Control-Max-Age": str(KEPT_SECONDS),
        "Vary": "Origin",
    }
