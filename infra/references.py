"""The ARNs of what definitions and webhooks name: secrets, parameters, functions."""

from __future__ import annotations

import aws_cdk as cdk


def secret_arn(name: str, stack: cdk.Stack) -> str:
    """Of a secret by its name or ARN. Secrets Manager adds a hyphen and six characters to a secret's name."""
    if name.startswith("arn:"):
        return name
    return _arn(stack, "secretsmanager", "secret", f"{name}-??????", cdk.ArnFormat.COLON_RESOURCE_NAME)


def parameter_arn(name: str, stack: cdk.Stack) -> str:
    """Of a parameter by its name, with or without the slash at its beginning, or ARN."""
    if name.startswith("arn:"):
        return name
    return _arn(stack, "ssm", "parameter", name.removeprefix("/"), cdk.ArnFormat.SLASH_RESOURCE_NAME)


def lambda_arn(name: str, stack: cdk.Stack) -> str:
    """Of a function by its name or ARN, with its alias or version where it has one."""
    if name.startswith("arn:"):
        return name
    return _arn(stack, "lambda", "function", name, cdk.ArnFormat.COLON_RESOURCE_NAME)


def _arn(stack: cdk.Stack, service: str, resource: str, name: str, form: cdk.ArnFormat) -> str:
    return stack.format_arn(service=service, resource=resource, resource_name=name, arn_format=form)
