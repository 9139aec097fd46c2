"""The table, the bucket and the queues' messages: encrypted, reached by TLS alone, and kept."""

from __future__ import annotations

import pytest

from stepwell.aws.store import keys
from stepwell.aws.store.items import EXPIRES
from stepwell.aws.store.table import RECORDS_KEPT_MS, SHAPE
from stepwell.limits import BLOB_DAYS, BLOB_SPARE_MS, DAY_MS
from stepwell.runtime.stores.blobs import for_time, of_run
from tests.infra.kit import GUARDED, KEY_ARN, PLAIN, VARIANTS, Json, listed, made

DATA = ("DynamoDB::Table", "S3::Bucket", "Logs::LogGroup", "SQS::Queue", "SecretsManager::Secret")


def test_the_table_has_the_shape_that_the_store_is_written_for() -> None:
    table = made(PLAIN).only("DynamoDB::Table")
    for name in ("BillingMode", "KeySchema", "GlobalSecondaryIndexes"):
        assert table[name] == SHAPE[name], name
    assert _by_name(table["AttributeDefinitions"]) == _by_name(SHAPE["AttributeDefinitions"])
    assert table["TimeToLiveSpecification"] == {"AttributeName": EXPIRES, "Enabled": True}


def test_the_table_streams_both_images_and_can_be_restored_to_any_second() -> None:
    table = made(PLAIN).only("DynamoDB::Table")
    assert table["StreamSpecification"] == {"StreamViewType": "NEW_AND_OLD_IMAGES"}
    assert table["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}


@pytest.mark.parametrize("kind", DATA)
def test_data_outlives_the_stack_by_default(kind: str) -> None:
    kept = [one for one in made(PLAIN).resources.values() if one["Type"] == f"AWS::{kind}"]
    assert kept
    assert {(one["DeletionPolicy"], one["UpdateReplacePolicy"]) for one in kept} == {("Retain", "Retain")}


def test_a_table_that_is_kept_cannot_be_deleted_by_hand_either() -> None:
    assert made(PLAIN).only("DynamoDB::Table")["DeletionProtectionEnabled"] is True
    assert made(GUARDED).only("DynamoDB::Table")["DeletionProtectionEnabled"] is False


@pytest.mark.parametrize("kind", DATA)
def test_destroy_leaves_nothing_behind(kind: str) -> None:
    gone = [one for one in made(GUARDED).resources.values() if one["Type"] == f"AWS::{kind}"]
    assert {one["DeletionPolicy"] for one in gone} == {"Delete"}
    assert made(GUARDED).of("S3::Bucket")
    assert "Custom::S3AutoDeleteObjects" in {one["Type"] for one in made(GUARDED).resources.values()}


@pytest.mark.parametrize("variant", VARIANTS)
def test_nothing_reads_or_writes_data_without_tls(variant: str) -> None:
    stack = made(VARIANTS[variant])
    guarded = [("SQS::Queue", "SQS::QueuePolicy", "Queues"), ("S3::Bucket", "S3::BucketPolicy", "Bucket")]
    if stack.has("SNS::Topic"):
        guarded.append(("SNS::Topic", "SNS::TopicPolicy", "Topics"))
    for kind, policy, names in guarded:
        closed = {
            ref["Ref"] for one in stack.of(policy).values() if _denies_plain_http(one) for ref in listed(one[names])
        }
        assert closed == set(stack.of(kind)), kind


def _denies_plain_http(policy: Json) -> bool:
    return any(
        one["Effect"] == "Deny"
        and one["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
        and one["Principal"] in ("*", {"AWS": "*"})
        for one in policy["PolicyDocument"]["Statement"]
    )


def test_nobody_outside_can_be_let_into_the_bucket() -> None:
    bucket = made(PLAIN).only("S3::Bucket")
    assert set(bucket["PublicAccessBlockConfiguration"].values()) == {True}
    assert len(bucket["PublicAccessBlockConfiguration"]) == 4


def test_blobs_of_events_expire_by_their_age_and_a_runs_only_after_its_records() -> None:
    """No snapshot expires, and no definition, whose blobs have no owner."""
    rules = made(PLAIN).only("S3::Bucket")["LifecycleConfiguration"]["Rules"]
    days = {rule["Prefix"]: rule["ExpirationInDays"] for rule in rules if "Prefix" in rule}
    kept = {f"blobs/days-{days}/": days for days in BLOB_DAYS}
    assert days == {**kept, "blobs/run-": (RECORDS_KEPT_MS + BLOB_SPARE_MS) // DAY_MS}
    (other,) = (rule for rule in rules if "Prefix" not in rule)
    assert set(other) == {"AbortIncompleteMultipartUpload", "Status"}
    assert of_run("r1").startswith("run-")
    assert for_time(DAY_MS) == f"days-{BLOB_DAYS[0]}"


def test_everything_at_rest_is_encrypted_by_aws_without_a_key() -> None:
    stack = made(PLAIN)
    assert all(queue["SqsManagedSseEnabled"] for queue in stack.of("SQS::Queue").values())
    (rule,) = stack.only("S3::Bucket")["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    assert rule["ServerSideEncryptionByDefault"] == {"SSEAlgorithm": "AES256"}


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("DynamoDB::Table", ("SSESpecification", "KMSMasterKeyId")),
        ("SQS::Queue", ("KmsMasterKeyId",)),
        ("Events::EventBus", ("KmsKeyIdentifier",)),
        ("Logs::LogGroup", ("KmsKeyId",)),
        ("SNS::Topic", ("KmsMasterKeyId",)),
    ],
)
def test_a_key_of_the_customers_encrypts_everything(kind: str, path: tuple[str, ...]) -> None:
    for one in made(GUARDED).of(kind).values():
        value: object = one
        for name in path:
            assert isinstance(value, dict)
            value = value[name]
        assert value == KEY_ARN


def _by_name(attributes: list[Json]) -> dict[str, str]:
    return {one["AttributeName"]: one["AttributeType"] for one in attributes}


def test_the_keys_of_the_stream_are_the_tables() -> None:
    """The stream's filter names the sort key and the prefixes of what the store writes."""
    assert keys.SORT == "sk"
    assert keys.record_key("r", "0", 1)["sk"]["S"].startswith("LOG#")
    assert keys.record_key("r", "0/3.0+10", 0)["sk"]["S"].startswith("JOIN#")
    assert keys.header_key("r")["sk"]["S"] == "RUN"
