"""Conditional answers: a reader who has the current answer gets 304 instead of the same bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

_TAG_BYTES = 12


def etag_of(text: str) -> str:
    """Returns the entity tag of a body: weak, because a gateway may compress it."""
    return f'W/"{hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=_TAG_BYTES).hexdigest()}"'


def is_known(etag: str, headers: Mapping[str, str]) -> bool:
    """Returns whether `If-None-Match` names this tag, among others or with a proxy's own prefix."""
    named = headers.get("if-none-match", "")
    return named.strip() == "*" or etag in (one.strip() for one in named.split(","))
