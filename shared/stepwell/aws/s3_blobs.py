"""Large values in S3 under their content hash; a second put writes the same bytes."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable
from typing import Any

from stepwell.aws.calls import Retry
from stepwell.aws.protocols import S3Client
from stepwell.errors import PortError

_REFERENCE = re.compile(r"sha256:([0-9a-f]{64})")


def reference_of(data: bytes) -> str:
    """Returns sha256:<hex> of the content."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


class S3Blobs:
    """The Blobs port on a bucket."""

    def __init__(
        self, bucket: str, client: Callable[[], S3Client], prefix: str = "blobs/", retry: Retry | None = None
    ) -> None:
        self._bucket, self._client, self._prefix, self._retry = bucket, client, prefix, retry or Retry()

    async def put(self, data: bytes) -> str:
        digest = hashlib.sha256(data)
        reference = f"sha256:{digest.hexdigest()}"
        checksum = base64.b64encode(digest.digest()).decode()  # S3 refuses a corrupted body
        self._retry.call("PutObject", lambda: self._client().put_object(
            Bucket=self._bucket, Key=self._key(reference), Body=data, ChecksumSHA256=checksum))  # fmt: skip
        return reference

    async def get(self, reference: str) -> bytes:
        key = self._key(reference)
        data = self._retry.call(f"the blob {reference}: GetObject", lambda: self._read(key))
        if reference_of(data) != reference:
            raise PortError(f"the blob {reference} is damaged", hint="its content has another hash")
        return data

    def _read(self, key: str) -> bytes:
        """Reads the whole body within the call, so that a broken connection fails the call."""
        body: Any = self._client().get_object(Bucket=self._bucket, Key=key)["Body"]
        data: bytes = body.read()
        return data

    def _key(self, reference: str) -> str:
        """Converts a reference to a key. It must be a hash, because it comes out of a record."""
        match = _REFERENCE.fullmatch(reference)
        if match is None:
            raise PortError(f"not a blob reference: {reference[:100]!r}", hint="expected sha256:<64 hex digits>")
        return f"{self._prefix}{match[1][:2]}/{match[1]}"
