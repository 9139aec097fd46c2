"""Links to large values in the bucket: S3 must take their signature for every region and key."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import boto3
import pytest

from stepwell.aws.clients import Clients
from stepwell.aws.s3_blobs import S3Blobs
from stepwell.runtime.stores.blobs import of_run, reference_of
from tests.contract.kit import run


def link(region: str) -> str:
    session = boto3.Session(region_name=region, aws_access_key_id="id", aws_secret_access_key="secret")
    return run(S3Blobs("stack-bucket", Clients(session).s3).link(reference_of(b"large", of_run("r1"))))


@pytest.mark.parametrize(
    ("region", "host"),
    [
        ("us-east-1", "stack-bucket.s3.amazonaws.com"),
        ("eu-west-1", "stack-bucket.s3.eu-west-1.amazonaws.com"),
        ("eu-central-1", "stack-bucket.s3.eu-central-1.amazonaws.com"),
        ("cn-north-1", "stack-bucket.s3.cn-north-1.amazonaws.com.cn"),
    ],
)
def test_a_link_is_signed_by_version_4_at_the_regions_own_host(region: str, host: str) -> None:
    """S3 refuses version 2 for objects under a customer's key, and the global host sends new buckets elsewhere."""
    found = urlsplit(link(region))
    assert found.hostname == host
    assert parse_qs(found.query)["X-Amz-Algorithm"] == ["AWS4-HMAC-SHA256"]


@pytest.mark.parametrize("name", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"])
def test_a_link_at_an_emulator_has_the_bucket_in_its_path(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "http://localhost:4566")
    found = urlsplit(link("eu-west-1"))
    assert (found.netloc, found.path.split("/")[1]) == ("localhost:4566", "stack-bucket")
