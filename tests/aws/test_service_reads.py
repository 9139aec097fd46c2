"""Datasets from S3: the text of an object, and the objects of a bucket from all pages."""

from __future__ import annotations

import gzip
import io
from datetime import UTC, datetime
from typing import Any

import pytest

from stepwell.aws.services.calls import ServiceCalls
from stepwell.aws.services.reads import read_list, read_object
from stepwell.limits import READ_BYTES
from stepwell.runtime.steps.failures import CallError
from stepwell.runtime.steps.services import ServiceCall
from tests.contract.emulated import Cloud

REQUEST = {"Bucket": "b", "Key": "k"}
LATE = datetime(2026, 11, 29, 10, 0, 0, 500_000, UTC)


def packed(content: bytes) -> bytes:
    return gzip.compress(content, mtime=0)


def text_of(content: bytes, length: int | None = None) -> str:
    answer = {"Body": io.BytesIO(content), "ContentLength": len(content) if length is None else length}
    return read_object(lambda **_: answer, REQUEST)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"a,b", "a,b"),
        ("\ufeffé".encode(), "é"),
        (packed(b"a,b"), "a,b"),
        (packed(b"a,") + packed(b"b"), "a,b"),
        (b"", ""),
    ],
    ids=["text", "mark", "packed", "packed twice", "empty"],
)
def test_an_object_is_told_as_text(content: bytes, text: str) -> None:
    assert text_of(content) == text


@pytest.mark.parametrize(
    ("content", "length", "kind"),
    [
        (b"", READ_BYTES + 1, "dataset_too_large"),
        (b"x" * (READ_BYTES + 1), 0, "dataset_too_large"),
        (packed(b"x" * (READ_BYTES + 1)), None, "dataset_too_large"),
        (packed(b"a,b")[:-4], None, "bad_dataset"),
        (b"\x1f\x8bno", None, "bad_dataset"),
        ("é".encode("latin-1"), None, "bad_dataset"),
    ],
    ids=["long", "longer than said", "long inside", "cut", "not packed", "another encoding"],
)
def test_an_object_that_is_too_large_or_no_text_is_refused(content: bytes, length: int | None, kind: str) -> None:
    with pytest.raises(CallError, match="s3://b/k") as refusal:
        text_of(content, length)
    assert (refusal.value.kind, refusal.value.category) == (kind, "step")


def pages(count: int, size: int, key: str = "k") -> tuple[list[dict[str, Any]], Any]:
    """The requests, and what answers them: pages of so many objects."""
    seen: list[dict[str, Any]] = []

    def ask(**request: Any) -> dict[str, Any]:
        seen.append(request)
        at = int(request.get("ContinuationToken", 0))
        found = [{"ETag": '"e"', "Key": f"{key}{at}.{one}", "LastModified": LATE, "Size": one} for one in range(size)]
        is_last = at + 1 == count
        more = {} if is_last else {"NextContinuationToken": str(at + 1)}
        return {"IsTruncated": not is_last, **more, **({"Contents": found} if size else {})}

    return seen, ask


def test_a_list_has_the_objects_of_all_pages() -> None:
    seen, ask = pages(3, 2)
    found = read_list(ask, {"Bucket": "b", "Prefix": "k"})
    assert [one["Key"] for one in found["Contents"]] == ["k0.0", "k0.1", "k1.0", "k1.1", "k2.0", "k2.1"]
    told = {"Etag": '"e"', "Key": "k0.0", "LastModified": 1795946400, "Size": 0, "StorageClass": "STANDARD"}
    assert (found["Contents"][0], found["IsTruncated"]) == (told, False)
    assert seen[1] == {"Bucket": "b", "Prefix": "k", "ContinuationToken": "1"}


def test_an_empty_list_has_no_objects() -> None:
    _, ask = pages(1, 0)
    assert read_list(ask, {"Bucket": "b"}) == {"Contents": [], "IsTruncated": False}


def test_a_list_is_cut_off_where_it_has_more_than_may_be_read() -> None:
    seen, ask = pages(100, 1_000, key="k" * 900)
    found = read_list(ask, {"Bucket": "b"})
    assert found["IsTruncated"] is True
    assert len(found["Contents"]) == pytest.approx(READ_BYTES / 1_000, rel=0.1)
    assert len(seen) < 10, "the other pages are not asked for"


def test_an_error_of_s3_has_its_name_and_parameters_are_checked() -> None:
    services = ServiceCalls(Cloud().service)
    for given, kind in (({"Bucket": "none", "Key": "k"}, "S3.NoSuchBucketException"), ({}, "bad_parameters"),
                        ([], "bad_parameters")):  # fmt: skip
        with pytest.raises(CallError) as refusal:
            services.read(ServiceCall("s3", "getObject", given))
        assert refusal.value.kind == kind
