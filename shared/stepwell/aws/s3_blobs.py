"""Large values in S3, under the hash of their content: putting one twice writes the same bytes again."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable
from typing import Any

from botocore.exceptions import ClientError

from stepwell.aws.calls import Retry, code_of
from stepwell.aws.protocols import S3Client
from stepwell.errors import PortError
from stepwell.runtime.ports import BROKEN_BLOB

_NOT_THERE = {"NoSuchKey", "AccessDenied"}  # the latter is what a reader hears that may not list the bucket
_REFERENCE = re.compile(r"sha256:([0-9a-f]{64})")


def reference_of(data: bytes) -> str:
    """sha256:<hex> of the content."""
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
        checksum = base64.b64encode(digest.digest()).decode()  # S3 refuses what does not arrive as it was sent
        self._retry.call("PutObject", lambda: self._client().put_object(
            Bucket=self._bucket, Key=self._key(reference), Body=data, ChecksumSHA256=checksum))  # fmt: skip
        return reference

    async def get(self, reference: str) -> bytes:
        key = self._key(reference)
        data = self._retry.call(f"the blob {reference}: GetObject", lambda: self._read(key))
        if reference_of(data) != reference:
            raise PortError(f"the blob {reference} is damaged", code=BROKEN_BLOB, hint="its content has another hash")
        return data

    def _read(self, key: str) -> bytes:
        """The body is part of the call: a connection that breaks while it is read breaks the call."""
        try:
            body: Any = self._client().get_object(Bucket=self._bucket, Key=key)["Body"]
            data: bytes = body.read()
        except ClientError as error:
            if code_of(error) in _NOT_THERE:
                raise PortError(f"the blob {key} is not there", code=BROKEN_BLOB) from error
            raise
        return data

    def _key(self, reference: str) -> str:
        """A reference comes out of a record: what is not a hash must never become a key."""
        match = _REFERENCE.fullmatch(reference)
        if match is None:
            message = f"not a blob's reference: {reference[:100]!r}"
            raise PortError(message, code=BROKEN_BLOB, hint="expected sha256:<64 hex digits>")
        return f"{self._prefix}{match[1][:2]}/{match[1]}"
