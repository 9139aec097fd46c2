"""A customer's KMS key, and the services that must be allowed to use it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

_LOGS = "kms:EncryptionContext:aws:logs:arn"
# CloudWatch writes to the alarms' topic; EventBridge keeps the bus, and writes to the resume queue.
_SEND = ("kms:Decrypt", "kms:DescribeKey", "kms:GenerateDataKey", "kms:GenerateDataKeyWithoutPlaintext")
_KEEP = (*_SEND, "kms:Encrypt", "kms:ReEncryptFrom", "kms:ReEncryptTo")


def open_to_services(scope: Construct, key: kms.IKey) -> None:
    """Allows logs, alarms and events to use the key.

    A key that is imported by ARN is not changed; its owner must allow them.
    """
    stack = cdk.Stack.of(scope)
    any_log = stack.format_arn(service="logs", resource="*")
    _allow(key, f"logs.{stack.region}.{stack.url_suffix}", _KEEP, {"ArnLike": {_LOGS: any_log}})
    for service in ("cloudwatch.amazonaws.com", "events.amazonaws.com"):
        _allow(key, service, _SEND, {"StringEquals": {"aws:SourceAccount": stack.account}})


def _allow(key: kms.IKey, service: str, actions: Sequence[str], when: Mapping[str, Mapping[str, str]]) -> None:
    """Allows a service to use the key. In the key's policy, `*` is the key itself."""
    key.add_to_resource_policy(
        iam.PolicyStatement(
            principals=[iam.ServicePrincipal(service)], actions=list(actions), resources=["*"], conditions=when
        )
    )
