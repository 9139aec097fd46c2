"""The external resources that a folder's steps call, by pool, as ARNs for the workers' permissions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import aws_cdk as cdk

from stepwell.cdk.references import lambda_arn, parameter_arn, secret_arn


def arns_of(calls: Mapping[str, Sequence[str]], stack: cdk.Stack) -> Mapping[str, list[str]]:
    """The resources of one pool, by their names in the table of permissions."""
    named = [reference.partition("#")[0].partition(":") for reference in calls.get("secret", ())]
    secrets = sorted({name for kind, _, name in named if kind == "secretsmanager"})
    parameters = sorted({name for kind, _, name in named if kind == "ssm"})
    return {
        "lambdas": [lambda_arn(name, stack) for name in calls.get("lambda", ())],
        "step_secrets": [secret_arn(name, stack) for name in secrets],
        "step_parameters": [parameter_arn(name, stack) for name in parameters],
    }
