"""Signature Version 4 of a POST, by hand: a test compares it with botocore's."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import field
from datetime import UTC, datetime

from stepwell.values import dataclass

_ALGORITHM = "AWS4-HMAC-SHA256"


@dataclass(frozen=True, slots=True)
class Key:
    """AWS credentials. `token` belongs to those that expire."""

    id: str
    secret: str = field(repr=False)
    token: str = field(default="", repr=False)


class Signer:
    """Signs for one service in one region. It keeps the day's signing key."""

    def __init__(self, service: str, region: str) -> None:
        self._service, self._region = service, region
        self._kept: tuple[Key | None, str, bytes] = (None, "", b"")

    def signed(self, key: Key, path: str, headers: Mapping[str, str], body: bytes, at_seconds: float) -> dict[str, str]:
        """Returns the headers with date, token and signature. All of them are signed; their names are lower-case."""
        at = f"{datetime.fromtimestamp(at_seconds, UTC):%Y%m%dT%H%M%SZ}"
        all_headers = {**headers, "x-amz-date": at}
        if key.token:
            all_headers["x-amz-security-token"] = key.token
        names = sorted(all_headers)
        listed = ";".join(names)
        canonical = "\n".join((
            "POST", path, "", *(f"{name}:{all_headers[name]}" for name in names), "", listed,
            hashlib.sha256(body).hexdigest(),
        ))  # fmt: skip
        scope = f"{at[:8]}/{self._region}/{self._service}/aws4_request"
        text = "\n".join((_ALGORITHM, at, scope, hashlib.sha256(canonical.encode()).hexdigest()))
        signature = hmac.digest(self._key_of(key, at[:8]), text.encode(), "sha256").hex()
        all_headers["authorization"] = (
            f"{_ALGORITHM} Credential={key.id}/{scope}, SignedHeaders={listed}, Signature={signature}"
        )
        return all_headers

    def _key_of(self, key: Key, day: str) -> bytes:
        kept, kept_day, found = self._kept
        if kept is key and kept_day == day:
            return found
        found = f"AWS4{key.secret}".encode()
        for part in (day, self._region, self._service, "aws4_request"):
            found = hmac.digest(found, part.encode(), "sha256")
        self._kept = key, day, found  # one assignment, so that threads see parts that belong together
        return found
