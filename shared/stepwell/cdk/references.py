"""The ARNs of resources named in definitions and webhooks: secrets, parameters, functions, and those of calls."""

from __future__ import annotations

import aws_cdk as cdk


def secret_arn(name: str, stack: cdk.Stack) -> str:
    """Returns a secret's ARN from its name or ARN. Secrets Manager appends a hyphen and six characters."""
    return _arn(stack, "secretsmanager", "secret", name, cdk.ArnFormat.COLON_RESOURCE_NAME, end="-??????")


def parameter_arn(name: str, stack: cdk.Stack) -> str:
    """Returns a parameter's ARN from its name, with or without a leading slash, or ARN."""
    return _arn(stack, "ssm", "parameter", name.removeprefix("/"), cdk.ArnFormat.SLASH_RESOURCE_NAME)


def lambda_arn(name: str, stack: cdk.Stack) -> str:
    """Returns a function's ARN from its name or ARN, with its alias or version."""
    return _arn(stack, "lambda", "function", name, cdk.ArnFormat.COLON_RESOURCE_NAME)


def resource_arn(name: str, stack: cdk.Stack) -> str:
    """Returns the ARN of a table, queue, topic, event bus or object from `SERVICE:KIND/NAME` or its ARN."""
    if name.startswith("arn:"):
        return name
    service, _, resource = name.partition(":")
    if service == "s3":  # a bucket's name is its own in all the world
        return f"arn:{stack.partition}:s3:::{resource}"
    kind, _, own = resource.partition("/")
    return _arn(stack, service, kind, own, cdk.ArnFormat.SLASH_RESOURCE_NAME)


def _arn(stack: cdk.Stack, service: str, resource: str, name: str, form: cdk.ArnFormat, end: str = "") -> str:
    if name.startswith("arn:"):
        return name
    return stack.format_arn(service=service, resource=resource, resource_name=f"{name}{end}", arn_format=form)
