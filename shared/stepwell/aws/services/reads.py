"""Reads datasets from S3: an object as text, and the objects of a bucket as a list."""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections.abc import Callable, Mapping
from typing import Any

from stepwell.definition.graph import Json
from stepwell.limits import READ_BYTES
from stepwell.runtime.steps.failures import CallError

Ask = Callable[..., Mapping[str, Any]]
TOO_LARGE = "dataset_too_large"
_GZIP = b"\x1f\x8b"


def read_object(ask: Ask, request: Mapping[str, Any]) -> str:
    """Returns the text of an object, which may be compressed by gzip. Raises CallError for what is no text."""
    answer = ask(**request)
    name, size = f"s3://{request.get('Bucket')}/{request.get('Key')}", answer.get("ContentLength", 0)
    if size > READ_BYTES:
        raise _too_large(f"{name} has {size} bytes")
    content: bytes = answer["Body"].read(READ_BYTES + 1)
    if content.startswith(_GZIP):
        content = _unpacked(content, name)
    if len(content) > READ_BYTES:
        raise _too_large(f"{name} has more than {READ_BYTES} bytes")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        message = f"{name} is no text in UTF-8: {error.reason} at byte {error.start}"
        raise CallError("bad_dataset", "step", message) from None


def _unpacked(content: bytes, name: str) -> bytes:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as packed:
            return packed.read(READ_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise CallError("bad_dataset", "step", f"{name} cannot be unpacked: {error}") from None


def _too_large(what: str) -> CallError:
    message = f"{what}; an ItemReader reads at most {READ_BYTES}: split the file, and go through its parts"
    return CallError(TOO_LARGE, "step", message)


def read_list(ask: Ask, request: Mapping[str, Any]) -> Json:
    """Returns the objects of a bucket, page by page, as Step Functions tells them: as many as may be read."""
    found: list[Json] = []
    left, following = READ_BYTES, dict(request)
    while True:
        answer = ask(**following)
        for one in answer.get("Contents", ()):
            told = _object(one)
            left -= len(json.dumps(told))
            if left < 0:
                return {"Contents": found, "IsTruncated": True}
            found.append(told)
        if not answer.get("IsTruncated"):
            return {"Contents": found, "IsTruncated": False}
        following = {**request, "ContinuationToken": answer["NextContinuationToken"]}


def _object(one: Mapping[str, Any]) -> dict[str, Json]:
    return {
        "Etag": one["ETag"],
        "Key": one["Key"],
        "LastModified": int(one["LastModified"].timestamp()),
        "Size": one["Size"],
        "StorageClass": one.get("StorageClass", "STANDARD"),
    }
