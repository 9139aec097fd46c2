"""The external resources that a folder's steps call, by pool, as ARNs for the workers' permissions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import aws_cdk as cdk
from constructs import Construct

from stepwell.cdk.permissions import OF_CALLS
from stepwell.cdk.references import lambda_arn, parameter_arn, resource_arn, secret_arn


def arns_of(calls: Mapping[str, Sequence[str]], stack: cdk.Stack) -> Mapping[str, list[str]]:
    """The resources of one pool, by their names in the table of permissions."""
    named = [reference.partition("#")[0].partition(":") for reference in calls.get("secret", ())]
    secrets = sorted({name for kind, _, name in named if kind == "secretsmanager"})
    parameters = sorted({name for kind, _, name in named if kind == "ssm"})
    services = [one.split(" ", 1) for one in calls.get("aws", ())]
    return {
        **{f"step {action}": [resource_arn(name, stack) for one, name in services if one == action]
           for action in OF_CALLS},
        "lambdas": [lambda_arn(name, stack) for name in calls.get("lambda", ())],
        "step_secrets": [secret_arn(name, stack) for name in secrets],
        "step_parameters": [parameter_arn(name, stack) for name in parameters],
    }  # fmt: skip


def tell_ungranted(worker: Construct, pool: str, calls: Mapping[str, Sequence[str]]) -> None:
    """Tells which calls of AWS services no permission is derived for: their resources are computed, or unknown."""
    if names := calls.get("aws_own", ()):
        message = (
            f"steps of the pool {pool} call {', '.join(names)}, and the definitions do not name the resources: "
            f"give what they need in the pool's `permissions`, or grant it to engine.workers[{pool!r}]"
        )
        cdk.Annotations.of(worker).add_info(message)
