"""The storage of runs: the table, the bucket for large values, and the event bus."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_events as events
from aws_cdk import aws_s3 as s3
from constructs import Construct

from stepwell.cdk import nag
from stepwell.cdk.props import EngineProps

BY_WORKFLOW, BY_STATE, BY_DUE = "by_workflow", "by_state", "by_due"
INDEXES = (  # name, partition key, sort key, and what an index has beside the keys
    (BY_WORKFLOW, "workflow", "at", None),
    (BY_STATE, "state", "at", ["workflow"]),
    (BY_DUE, "due_in", "due", None),
)
# How many days blobs are kept, by the prefix of their keys. A run that lives needs its blobs, however old: they have a
# week more than its records, whose TTL is 100 years. Those of an ended run are deleted with its log.
EXPIRING = {"blobs/days-14/": 14, "blobs/days-60/": 60, "blobs/days-400/": 400, "blobs/run-": 36_507}


class Storage(Construct):
    """The table with its stream, the bucket and the event bus."""

    def __init__(self, scope: Construct, construct_id: str, props: EngineProps) -> None:
        super().__init__(scope, construct_id)
        self.table = self._make_table(props)
        self.bucket = self._make_bucket(props)
        self.bus = events.EventBus(self, "Bus", event_bus_name=_bus_name(self), kms_key=props.kms_key,
                                   description="What happens to Stepwell's runs")  # fmt: skip

    @property
    def stream_arn(self) -> str:
        """The ARN of the table's stream."""
        arn = self.table.table_stream_arn
        assert arn  # noqa: S101 - the table has a stream
        return arn

    def index_arn(self, name: str) -> str:
        return f"{self.table.table_arn}/index/{name}"

    def _make_table(self, props: EngineProps) -> dynamodb.Table:
        table = make_table(
            self,
            "Table",
            props,
            stream=dynamodb.StreamViewType.NEW_AND_OLD_IMAGES,
            point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
                point_in_time_recovery_enabled=True
            ),
            deletion_protection=props.keeps_data,
            removal_policy=props.removal_policy,
        )
        projection = dynamodb.ProjectionType
        for index, key, order, more in INDEXES:
            table.add_global_secondary_index(
                index_name=index,
                partition_key=_text(key),
                sort_key=_text(order),
                projection_type=projection.INCLUDE if more else projection.KEYS_ONLY,
                non_key_attributes=more,
            )
        return table

    def _make_bucket(self, props: EngineProps) -> s3.Bucket:
        """Creates the bucket, without versions: a blob is named by its content, a snapshot is of an ended run.

        The stream function deletes a run's blobs with its log, because a run may live for years. The blobs of events
        expire by their age; snapshots and definitions never expire.
        """
        bucket = s3.Bucket(
            self,
            "Bucket",
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            encryption=s3.BucketEncryption.KMS if props.kms_key else s3.BucketEncryption.S3_MANAGED,
            encryption_key=props.kms_key,
            bucket_key_enabled=props.kms_key is not None,
            enforce_ssl=True,
            lifecycle_rules=[
                s3.LifecycleRule(abort_incomplete_multipart_upload_after=cdk.Duration.days(1)),
                *(
                    s3.LifecycleRule(prefix=prefix, expiration=cdk.Duration.days(days))
                    for prefix, days in EXPIRING.items()
                ),
            ],
            removal_policy=props.removal_policy,
            auto_delete_objects=props.auto_delete_objects and not props.keeps_data,
        )
        nag.acknowledge(bucket, nag.BUCKET)
        return bucket


def _bus_name(scope: Construct) -> str | None:
    """Returns a name for the bus of a stack that is not named by its id.

    The CDK's own name is made of ids alone: two stacks of one id, such as `flows-dev` and `flows-prod`, would share it.
    """
    stack = cdk.Stack.of(scope)
    while stack.nested_stack_parent:
        stack = stack.nested_stack_parent
    if stack.stack_name == stack.node.path.replace("/", "-"):
        return None
    return cdk.Names.unique_resource_name(scope, max_length=256, separator="-", allowed_special_characters="-")


def make_table(scope: Construct, construct_id: str, props: EngineProps, **options: Any) -> dynamodb.Table:
    """Creates a table of `pk` and `sk`. Without a customer's key it has DynamoDB's own, which is free."""
    return dynamodb.Table(
        scope,
        construct_id,
        partition_key=_text("pk"),
        sort_key=_text("sk"),
        billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
        time_to_live_attribute="expires",
        encryption=dynamodb.TableEncryption.CUSTOMER_MANAGED if props.kms_key else None,
        encryption_key=props.kms_key,
        **options,
    )


def _text(name: str) -> dynamodb.Attribute:
    return dynamodb.Attribute(name=name, type=dynamodb.AttributeType.STRING)
