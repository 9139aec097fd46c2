"""The limits of a function's environment and of its role's policies, which a deploy would meet only after minutes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from constructs import Construct

from stepwell.cdk.errors import BadProperty

MOST_BYTES = 4_096
POLICY_CHARACTERS = 10_240  # of all policies that are written in a role, without blanks
_NAME_LENGTH = 64  # of a Lambda function; a queue's name may be longer
_SUFFIX_LENGTH = 13  # that CloudFormation appends to a name, with a hyphen
_ARN = "arn:aws:sqs:us-east-1:123456789012:"
_URL = "https://sqs.us-east-1.amazonaws.com/123456789012/"
_OF_AWS = {"AWS::Region": len("us-east-1"), "AWS::AccountId": 12, "AWS::Partition": len("aws")}


def check_environment(scope: Construct, name: str, variables: Mapping[str, str]) -> None:
    """Raises BadProperty if a function's variables cannot fit: names that are not known yet count as their shortest."""
    stack = cdk.Stack.of(scope)
    prefix = 0 if cdk.Token.is_unresolved(stack.stack_name) else len(stack.stack_name)
    resolved: Mapping[str, Any] = stack.resolve(dict(variables))
    size = sum(len(key) + _least(value, prefix) for key, value in resolved.items())
    if size > MOST_BYTES:
        raise BadProperty(f"pools: the environment of {name} has at least {size} bytes, but Lambda takes {MOST_BYTES}: "
                          "have fewer pools (some eight fit), shorter names, or less in `environment`")  # fmt: skip


def check_policies(scope: Construct, name: str, documents: Iterable[iam.PolicyDocument]) -> None:
    """Raises BadProperty if a function's policies cannot fit into its role: unknown names count as their shortest."""
    stack = cdk.Stack.of(scope)
    prefix = 0 if cdk.Token.is_unresolved(stack.stack_name) else len(stack.stack_name)
    size = sum(_written(stack.resolve(one), prefix) for one in documents)
    if size > POLICY_CHARACTERS:
        raise BadProperty(f"pools: the policies of {name} have at least {size} characters, but IAM takes "
                          f"{POLICY_CHARACTERS}: have some of its steps run in another pool, so that each calls fewer "
                          "functions, secrets and services")  # fmt: skip


def _written(value: Any, prefix: int) -> int:
    """Returns the least length of a resolved value as JSON without blanks."""
    match value:
        case {"Fn::Join": _} | {"Ref": _} | {"Fn::GetAtt": _}:
            return 2 + _least(value, prefix)
        case dict():
            return 1 + sum(len(key) + 4 + _written(one, prefix) for key, one in value.items())
        case list():
            return 1 + sum(1 + _written(one, prefix) for one in value)
        case _:
            return 2 + len(str(value))


def _least(value: Any, prefix: int) -> int:
    """Returns the least length of a resolved value; `prefix` is the length of the stack's name."""
    match value:
        case str():
            return len(value.encode())
        case {"Fn::Join": [separator, parts]}:
            return len(separator) * (len(parts) - 1) + sum(_least(part, prefix) for part in parts)
        case {"Ref": name}:
            return _OF_AWS.get(name) or _named(name, prefix) + (len(_URL) if "Queues" in name else 0)
        case {"Fn::GetAtt": [name, "Arn"]}:
            return _named(name, prefix) + len(_ARN)
        case _:
            return 0


def _named(logical_id: str, prefix: int) -> int:
    return min(prefix + 1 + len(logical_id) + _SUFFIX_LENGTH, _NAME_LENGTH)
