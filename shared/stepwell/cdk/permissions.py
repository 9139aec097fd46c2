"""The table of permissions: one row for each function and resource, with exactly the actions it calls.

The CDK's grants give more than needed: `grant_read_write_data` includes scans.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from aws_cdk import aws_iam as iam

# A transaction needs the permissions of its items.
_READ = ("dynamodb:GetItem", "dynamodb:Query")
_ADVANCE = (*_READ, "dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem")
_LIST = ("dynamodb:BatchGetItem",)
_TAKE = ("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes")
_FOLLOW = ("dynamodb:DescribeStream", "dynamodb:GetRecords", "dynamodb:GetShardIterator", "dynamodb:ListStreams")
_REPUBLISH = ("sqs:ReceiveMessage", "sqs:DeleteMessage")
_LOOK = (*_REPUBLISH, "sqs:ChangeMessageVisibility")
_SEND = ("sqs:SendMessage",)
_WATCHERS = ("execute-api:ManageConnections",)
_KEY = ("kms:Decrypt", "kms:GenerateDataKey")
_TABLE_KEY = (*_KEY, "kms:Encrypt", "kms:DescribeKey", "kms:ReEncryptFrom", "kms:ReEncryptTo")

Row = tuple[Sequence[str], str]  # actions, the name of their resource

# Functions that start runs.
_START = (*_READ, "dynamodb:PutItem", "dynamodb:UpdateItem")
_REACH: tuple[Row, ...] = (
    (("s3:GetObject", "s3:PutObject"), "blobs"),
    (_SEND, "resume"),
    (_SEND, "work"),
)
# Functions that set timers, also for runs that they start.
_ARM: tuple[Row, ...] = (
    (("scheduler:CreateSchedule",), "schedules"),
    (("iam:PassRole",), "schedule_role"),
)
# Functions that advance runs: append, register waits, send wakes.
_MOVE: tuple[Row, ...] = ((_ADVANCE, "table"), *_REACH)
# Functions that delete runs with all their data.
_ERASE: tuple[Row, ...] = (
    (("dynamodb:BatchWriteItem",), "batched"),
    (("s3:ListBucket",), "bucket"),
    (("s3:DeleteObject",), "run_blobs"),
    (("s3:DeleteObject",), "event_blobs"),
    (("s3:DeleteObject",), "snapshots"),
)
# The resources of batches, which list and delete runs.
OF_BATCHES = ("batched", "batched_indexes", "bucket", "run_blobs", "event_blobs", "snapshots")
# Functions that sign or verify links.
_LINK: tuple[Row, ...] = ((("secretsmanager:GetSecretValue",), "link_key"),)

# What steps that call services may be given, each on the resources that the definitions write out.
OF_CALLS = (
    "dynamodb:DeleteItem",
    "dynamodb:GetItem",
    "dynamodb:PutItem",
    "dynamodb:Query",
    "dynamodb:Scan",
    "dynamodb:UpdateItem",
    "events:PutEvents",
    "s3:GetObject",
    "s3:GetObjectVersion",
    "s3:ListBucket",
    "s3:PutObject",
    "sns:Publish",
    "sqs:SendMessage",
)

PERMISSIONS: Mapping[str, Sequence[Row]] = {
    "api": (*_MOVE, *_ARM, (("scheduler:DeleteSchedule",), "schedules"), (_LIST, "table"),
            (("dynamodb:Query",), "indexes"), *_LINK, *_ERASE, (_LOOK, "dead"), (("lambda:InvokeFunction",), "worker"),
            (("logs:FilterLogEvents",), "worker_logs")),
    "webhooks": (((*_START, "dynamodb:DeleteItem"), "table"), *_REACH, *_ARM,
                 (("secretsmanager:GetSecretValue",), "webhook_secrets"),
                 (("ssm:GetParameter",), "webhook_parameters")),
    "coordinator": (*_MOVE, *_ARM, (_TAKE, "resume"), (_TAKE, "work_dead"), (_LIST, "table"),
                    (("dynamodb:Query",), "open")),
    "worker": (
        *_MOVE,
        *_ARM,
        *_LINK,
        *_ERASE,
        ((*_TAKE, "sqs:ChangeMessageVisibility"), "own_work"),
        (("lambda:InvokeFunction",), "lambdas"),
        (("secretsmanager:GetSecretValue",), "step_secrets"),
        (("ssm:GetParameter",), "step_parameters"),
        *(((action,), f"step {action}") for action in OF_CALLS),
        (_LIST, "table"),
        (("dynamodb:Query",), "batched_indexes"),
    ),
    "stream": (
        (_READ, "table"),
        (_LIST, "table"),
        (("dynamodb:BatchWriteItem", "dynamodb:PutItem", "dynamodb:DeleteItem"), "table"),
        (_FOLLOW, "stream"),
        (("s3:GetObject",), "blobs"),
        (("s3:ListBucket",), "bucket"),
        (("s3:DeleteObject",), "run_blobs"),
        (("s3:PutObject", "s3:AbortMultipartUpload"), "snapshots"),
        (("events:PutEvents",), "bus"),
        (_SEND, "dead"),
        (_SEND, "notifications"),
        (("dynamodb:Query", "dynamodb:DeleteItem"), "connections"),
        (_WATCHERS, "watchers"),
    ),
    "live": (
        (_READ, "table"),
        (_LIST, "table"),
        (("s3:GetObject",), "blobs"),
        *_LINK,
        ((*_READ, "dynamodb:PutItem", "dynamodb:DeleteItem"), "connections"),
        (_WATCHERS, "watchers"),
    ),
    "sender": (
        (_TAKE, "notifications"),
        (_SEND, "notifications"),
        (_SEND, "dead_notifications"),
        (("secretsmanager:GetSecretValue",), "endpoint_secrets"),
        (("ssm:GetParameter",), "endpoint_parameters"),
    ),
    "sweeper": (
        (_READ, "table"),
        (_LIST, "table"),
        (("dynamodb:UpdateItem", "dynamodb:PutItem"), "table"),
        (("dynamodb:Query",), "swept"),
        (("s3:GetObject",), "blobs"),
        (_REPUBLISH, "dead"),
        (_SEND, "resume"),
        (_SEND, "work"),
    ),
    "authorizer": ((("secretsmanager:GetSecretValue",), "api_key"),),
    "schedule": ((_SEND, "resume"), (_SEND, "work")),
}  # fmt: skip

LOGS: Row = (("logs:CreateLogStream", "logs:PutLogEvents"), "logs")
# With a customer's key: what the services require of their caller.
KEY_USE: Mapping[str, Sequence[str]] = {
    "api": _TABLE_KEY,
    "webhooks": _TABLE_KEY,
    "coordinator": _TABLE_KEY,
    "worker": _TABLE_KEY,
    "stream": _TABLE_KEY,
    "live": _TABLE_KEY,
    "sender": _KEY,
    "sweeper": _TABLE_KEY,
    "authorizer": ("kms:Decrypt",),
    "schedule": _KEY,
}
# EC2 has no resource for a network interface before its creation.
NETWORK = (
    "ec2:CreateNetworkInterface",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSubnets",
    "ec2:DeleteNetworkInterface",
    "ec2:AssignPrivateIpAddresses",
    "ec2:UnassignPrivateIpAddresses",
)
_CONDITIONS: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    "bucket": {"StringLike": {"s3:prefix": "blobs/run-*"}},
    "schedule_role": {"StringEquals": {"iam:PassedToService": "scheduler.amazonaws.com"}},
}


@dataclass(frozen=True, slots=True)
class Resources:
    """The ARNs of the names in the table. A name without ARNs adds no statement."""

    arns: Mapping[str, Sequence[str]]
    key_arn: str = ""
    in_vpc: bool = False
    former_key_arns: Sequence[str] = ()

    def with_arns(self, **more: Sequence[str]) -> Resources:
        """Returns these resources and more."""
        return replace(self, arns={**self.arns, **more})

    def statements(self, function: str, more: Mapping[str, Sequence[str]]) -> Iterator[iam.PolicyStatement]:
        """Returns a function's statements; `more` are its own resources."""
        arns = {**self.arns, **more}
        for actions, name in (*PERMISSIONS[function], *([LOGS] if "logs" in more else [])):
            if arns[name]:
                yield iam.PolicyStatement(
                    actions=list(actions), resources=list(arns[name]), conditions=_CONDITIONS.get(name)
                )
        if self.key_arn:
            yield iam.PolicyStatement(actions=list(KEY_USE[function]), resources=[self.key_arn])
        if self.former_key_arns and "logs" in more:  # the schedules' role only writes
            yield iam.PolicyStatement(actions=["kms:Decrypt"], resources=list(self.former_key_arns))
        if self.in_vpc and "logs" in more:
            yield iam.PolicyStatement(actions=list(NETWORK), resources=["*"])
