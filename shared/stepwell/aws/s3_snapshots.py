"""Snapshots of runs in S3: one request for a short one, a multipart upload for a long one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

from stepwell.aws.calls import Retry
from stepwell.aws.protocols import S3Client

PART_BYTES = 8 << 20  # S3 requires parts of at least 5 MiB, and allows 10,000
_TYPE = "application/jsonl"


class S3Snapshots:
    """Files in a bucket, each complete or absent."""

    def __init__(
        self, bucket: str, client: Callable[[], S3Client], retry: Retry | None = None, part_bytes: int = PART_BYTES
    ) -> None:
        self._bucket, self._client, self._retry, self._part_bytes = bucket, client, retry or Retry(), part_bytes

    async def write(self, name: str, lines: AsyncIterator[str]) -> None:
        """Writes a file. Raises PortError, or the lines' own errors, and then leaves nothing behind."""
        upload: _Upload | None = None
        part = bytearray()
        try:
            async for line in lines:
                part += line.encode()
                if len(part) >= self._part_bytes:
                    upload = upload or self._begin(name)
                    upload.add(bytes(part))
                    part.clear()
            if upload is None:
                self._put(name, bytes(part))
            else:
                upload.finish(bytes(part))
        except Exception:
            if upload is not None:
                upload.abandon()
            raise

    async def drop(self, name: str) -> None:
        """Deletes a file, if there is one."""
        self._retry.call("DeleteObject", lambda: self._client().delete_object(Bucket=self._bucket, Key=name))

    def _put(self, name: str, data: bytes) -> None:
        self._retry.call("PutObject", lambda: self._client().put_object(
            Bucket=self._bucket, Key=name, Body=data, ContentType=_TYPE))  # fmt: skip

    def _begin(self, name: str) -> _Upload:
        place = {"Bucket": self._bucket, "Key": name}
        begun = self._retry.call(
            "CreateMultipartUpload",
            lambda: self._client().create_multipart_upload(**place, ContentType=_TYPE),
        )
        return _Upload(self._client, self._retry, {**place, "UploadId": begun["UploadId"]})


class _Upload:
    """A file that is uploaded part by part."""

    def __init__(self, client: Callable[[], S3Client], retry: Retry, place: dict[str, Any]) -> None:
        self._client, self._retry, self._place = client, retry, place
        self._parts: list[dict[str, Any]] = []

    def add(self, data: bytes) -> None:
        number = len(self._parts) + 1
        sent = self._retry.call(
            "UploadPart", lambda: self._client().upload_part(**self._place, PartNumber=number, Body=data)
        )
        self._parts.append({"PartNumber": number, "ETag": sent["ETag"]})

    def finish(self, rest: bytes) -> None:
        if rest:
            self.add(rest)
        self._retry.call(
            "CompleteMultipartUpload",
            lambda: self._client().complete_multipart_upload(**self._place, MultipartUpload={"Parts": self._parts}),
        )

    def abandon(self) -> None:
        """Aborts the upload, because uploaded parts cost storage."""
        self._retry.call("AbortMultipartUpload", lambda: self._client().abort_multipart_upload(**self._place))
