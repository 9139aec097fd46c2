"""A key of the customer's: which services must be allowed to use it, beside the functions."""

from __future__ import annotations

from collections.abc import Mapping

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

_LOGS = "kms:EncryptionContext:aws:logs:arn"
_USE = ("kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey", "kms:GenerateDataKeyWithoutPlaintext",
        "kms:ReEncryptFrom", "kms:ReEncryptTo")  # fmt: skip


def open_to_services(scope: Construct, key: kms.IKey) -> None:
    """Lets logs, alarms and events be encrypted under the key. Does nothing to a key that is only named by its ARN:
    whoever made that one must do it."""
    stack = cdk.Stack.of(scope)
    any_log = stack.format_arn(service="logs", resource="*")
    _allow(key, f"logs.{stack.region}.amazonaws.com", {"ArnLike": {_LOGS: any_log}})
    for service in ("cloudwatch.amazonaws.com", "events.amazonaws.com"):
        _allow(key, service, {"StringEquals": {"aws:SourceAccount": stack.account}})


def _allow(key: kms.IKey, service: str, when: Mapping[str, Mapping[str, str]]) -> None:
    """In a key's policy, `*` is the key itself."""
    key.add_to_resource_policy(
        iam.PolicyStatement(
            principals=[iam.ServicePrincipal(service)], actions=list(_USE), resources=["*"], conditions=when
        )
    )
