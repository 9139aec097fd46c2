"""Large values in S3 under their content hash; a second put writes the same bytes."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping
from typing import Any

from stepwell.aws.calls import Retry
from stepwell.aws.failures import code_of
from stepwell.aws.protocols import S3Client
from stepwell.errors import PortError
from stepwell.limits import LINK_SECONDS, SECOND_MS
from stepwell.runtime.ports import BROKEN_BLOB
from stepwell.runtime.stores.blobs import check_blob, checked_owner, place_of, reference_of

_PREFIX = "blobs/"
_NOT_THERE = {"NoSuchKey", "AccessDenied"}  # S3 answers the latter to a reader who may not list the bucket
_MAY_NOT_READ = ("kms:", "s3:GetObject")  # what it then names instead, if a policy or the key refuses what is there


class S3Blobs:
    """The Blobs port on a bucket, with a prefix for each owner. The lifecycle expires the prefixes `days-…`."""

    def __init__(self, bucket: str, client: Callable[[], S3Client], retry: Retry | None = None) -> None:
        self._bucket, self._client, self._retry = bucket, client, retry or Retry()

    async def put(self, data: bytes, owner: str = "") -> str:
        reference = reference_of(data, owner)
        key = self._key(reference)
        checksum = base64.b64encode(hashlib.sha256(data).digest()).decode()  # S3 refuses a corrupted body
        self._retry.call("PutObject", lambda: self._client().put_object(
            Bucket=self._bucket, Key=key, Body=data, ChecksumSHA256=checksum))  # fmt: skip
        return reference

    async def get(self, reference: str) -> bytes:
        key = self._key(reference)
        return check_blob(self._retry.call(f"the blob {reference}: GetObject", lambda: self._read(key)), reference)

    async def link(self, reference: str) -> str:
        place = {"Bucket": self._bucket, "Key": self._key(reference)}
        return self._client().generate_presigned_url("get_object", Params=place, ExpiresIn=LINK_SECONDS)

    async def drop(self, owner: str, before_ms: int | None = None) -> None:
        """Lists and deletes a thousand blobs with each two requests; deletes are free.

        `before_ms`: only those that were last put before.
        """
        asked = {"Bucket": self._bucket, "Prefix": f"{_PREFIX}{checked_owner(owner)}/"}
        while last := self._drop_page(asked, before_ms):
            asked["StartAfter"] = last

    async def remove(self, reference: str) -> None:
        key = self._key(reference)
        self._retry.call("DeleteObject", lambda: self._client().delete_object(Bucket=self._bucket, Key=key))

    def _drop_page(self, asked: Mapping[str, str], before_ms: int | None) -> str:
        """Deletes one page of blobs. Returns the last key of it if there are more."""
        page = self._retry.call("ListObjectsV2", lambda: self._client().list_objects_v2(**asked))
        found = page.get("Contents", ())
        old = [{"Key": one["Key"]} for one in found if before_ms is None or _put_ms(one) < before_ms]
        if old:
            wanted = {"Bucket": self._bucket, "Delete": {"Objects": old, "Quiet": True}}
            answer = self._retry.call("DeleteObjects", lambda: self._client().delete_objects(**wanted))
            if failed := answer.get("Errors"):
                raise PortError(f"DeleteObjects: {failed[0].get('Key')}: {failed[0].get('Message')}")
        return str(found[-1]["Key"]) if page.get("IsTruncated") else ""

    def _read(self, key: str) -> bytes:
        """Reads the whole body within the call, so that a broken connection fails the call."""
        try:
            body: Any = self._client().get_object(Bucket=self._bucket, Key=key)["Body"]
            data: bytes = body.read()
        except Exception as error:
            refusal = str(error)
            if code_of(error) == "AccessDenied" and any(action in refusal for action in _MAY_NOT_READ):
                raise PortError(f"the blob {key} cannot be read: {refusal}") from error
            if code_of(error) in _NOT_THERE:
                raise PortError(f"the blob {key} does not exist", code=BROKEN_BLOB) from error
            raise
        return data

    def _key(self, reference: str) -> str:
        return f"{_PREFIX}{place_of(reference)}"


def _put_ms(listed: Mapping[str, Any]) -> float:
    last: float = listed["LastModified"].timestamp()
    return last * SECOND_MS
