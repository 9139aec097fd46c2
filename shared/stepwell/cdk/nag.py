"""Suppressed findings of cdk-nag's AWS Solutions rules, each with its reason. Other findings fail the synthesis.

A `*` in a role is suppressed for its exact resource only, so that others in the same role are found.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from constructs import IConstruct

from stepwell.cdk.permissions import PERMISSIONS

IAM5 = "AwsSolutions-IAM5"

BUCKET = {
    "AwsSolutions-S1": "Only the engine's own functions may read it, and whoever wants a trail of each access has "
    "CloudTrail's data events; access logs would need a second bucket that grows without end.",
}
# Names in the table of permissions whose ARN ends with `*`.
PREFIXES = {
    "blobs": "A blob is named by the hash of its content: its key is not known before.",
    "run_blobs": "Which runs will expire, and with them their blobs, is not known before.",
    "event_blobs": "Which events will be deleted, and with them their blobs, is not known before.",
    "snapshots": "A snapshot is named by its run: its key is not known before.",
    "watchers": "API Gateway names a connection when it opens: its id is not known before.",
    "schedules": "A timer is named by what it wakes: its name is not known before. The group is the engine's own.",
}
PYTHON = {"AwsSolutions-L1": "The functions run the Python that the project is tested with, which it chooses."}
ANYWHERE = {f"{IAM5}[Resource::*]": "X-Ray, and EC2 for a network interface that is not there yet, know no resource."}
CALLED = "What a state machine computes, such as the key of an object, is not known before. Its bucket is written out."
POOL = "What a pool's steps may do is for whoever gives the pool its permissions to say."
API_KEY = {
    "AwsSolutions-SMG4": "A key that changed by itself would shut out whoever holds it. Put another value into the "
    "secret when its holders can follow: the API takes it within minutes.",
}
LINK_KEY = {
    "AwsSolutions-SMG4": "A key that changed by itself would break every link that is under way. The secret may be a "
    "JSON list of keys, of which the first signs and all are good: add one, and take the old one away a year later.",
}
LINKS = {
    "AwsSolutions-APIG4": "Whoever was sent a link has nothing else to show: the function checks its signature, how "
    "long it is good and that it was not used.",
}
WEBHOOKS = {
    "AwsSolutions-APIG4": "A webhook's sender cannot sign for this API; it signs the body, which the function checks.",
}
CONSOLE = {
    "AwsSolutions-APIG4": "Who is to sign in has no token yet. The page and its script say nothing of any run.",
}
TICKETS = {
    "AwsSolutions-APIG4": "A browser can sign nothing for a WebSocket. The function checks a ticket that the HTTP API "
    "signed for a caller whom it let in, a minute ago at most.",
}
UNLOGGED = {
    "AwsSolutions-APIG1": "Access logs of a WebSocket API need a role that is set for the whole account and region. "
    "The HTTP API logs who was given a ticket.",
}
CONNECTIONS = {
    "AwsSolutions-DDB3": "It holds who watches at this moment; after a loss they connect again.",
}
PREFLIGHT = {
    "AwsSolutions-APIG4": "A browser asks without credentials whether a page may call; the answer has no data.",
}


def acknowledge(scope: IConstruct, reasons: Mapping[str, str]) -> None:
    """Suppresses findings by id, with reasons."""
    for finding, reason in reasons.items():
        cdk.Validations.of(scope).acknowledge(cdk.Acknowledgment(id=finding, reason=reason))


def about_role(handler: str, bucket: s3.IBucket, group: str) -> Mapping[str, str]:
    """Suppresses findings about a function's role, by its row in the table of permissions."""
    bucket_arn = f"<{_logical_id(bucket)}.Arn>"
    found = {
        "blobs": f"{bucket_arn}/blobs/*",
        "run_blobs": f"{bucket_arn}/blobs/run-*",
        "event_blobs": f"{bucket_arn}/blobs/days-*",
        "snapshots": f"{bucket_arn}/runs/*",
        "schedules": f"arn:<AWS::Partition>:scheduler:<AWS::Region>:<AWS::AccountId>:schedule/{_flat(bucket, group)}/*",
    }
    named = {name for _, name in PERMISSIONS[handler]}
    return {f"{IAM5}[Resource::{found[name]}]": PREFIXES[name] for name in found if name in named}


def about_watchers(api: IConstruct, stage: str) -> Mapping[str, str]:
    """Suppresses the finding about sending to the connections of a WebSocket API."""
    arn = f"arn:<AWS::Partition>:execute-api:<AWS::Region>:<AWS::AccountId>:<{_logical_id(api)}>/{stage}"
    return {f"{IAM5}[Resource::{arn}/POST/@connections/*]": PREFIXES["watchers"]}


def about_pool(statements: Iterable[iam.PolicyStatement]) -> Mapping[str, str]:
    """Suppresses findings about the permissions that a pool's owner gave to its steps."""
    wide: list[str] = []
    for statement in statements:
        wide += [f"Action::{action}" for action in statement.actions if "*" in action]
        wide += [f"Resource::{resource}" for resource in statement.resources if "*" in resource]
    return {f"{IAM5}[{finding}]": POOL for finding in wide}


def about_calls(scope: IConstruct, resources: Mapping[str, Iterable[str]]) -> Mapping[str, str]:
    """Suppresses findings about what the steps of a pool call, where only a part of it is computed."""
    called = (arn for name, arns in resources.items() if name == "lambdas" or name.startswith("step ") for arn in arns)
    return {f"{IAM5}[Resource::{_joined(scope, arn)}]": CALLED for arn in called if "*" in arn}


def _joined(scope: IConstruct, arn: str) -> str:
    """Formats an ARN as cdk-nag does."""
    resolved = cdk.Stack.of(scope).resolve(arn)
    parts = resolved["Fn::Join"][1] if isinstance(resolved, dict) else [resolved]
    return "".join(f"<{part['Ref']}>" if isinstance(part, dict) else part for part in parts)


def _flat(scope: IConstruct, name: str) -> str:
    """Formats a name as cdk-nag does, with references in angle brackets."""
    resolved = cdk.Stack.of(scope).resolve(name)
    return f"<{resolved['Ref']}>" if isinstance(resolved, dict) else name


def _logical_id(construct: IConstruct) -> str:
    """Returns the logical id of a construct's resource."""
    resource = construct.node.default_child
    assert isinstance(resource, cdk.CfnElement)  # noqa: S101 - the construct's resource
    return cdk.Stack.of(construct).get_logical_id(resource)
