"""What the services themselves do with the roles: Lambda to invoke functions and keep their logs, KMS for callers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tests.iam.policies import Need
from tests.iam.template import ACCOUNT, REGION, Template

Needs = Iterable[tuple[str, Need]]

_LOG = ("logs:CreateLogStream", "logs:PutLogEvents")
_FROM_QUEUE = ("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes")
_FROM_STREAM = ("dynamodb:DescribeStream", "dynamodb:GetRecords", "dynamodb:GetShardIterator", "dynamodb:ListStreams")
_NETWORK = (
    "ec2:CreateNetworkInterface",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSubnets",
    "ec2:DeleteNetworkInterface",
    "ec2:AssignPrivateIpAddresses",
    "ec2:UnassignPrivateIpAddresses",
)
_TRACES = ("xray:PutTraceSegments", "xray:PutTelemetryRecords")

# What a caller needs of the key under which the service keeps the data, as each service's documentation says.
_MAKE_AND_READ = ("kms:GenerateDataKey", "kms:Decrypt")
_TABLE = (*_MAKE_AND_READ, "kms:Encrypt", "kms:ReEncryptFrom", "kms:ReEncryptTo", "kms:DescribeKey")
_OF_KEY: Mapping[str, tuple[str, ...]] = {
    "dynamodb": _TABLE,
    "s3:GetObject": ("kms:Decrypt",),
    "s3:PutObject": _MAKE_AND_READ,
    "secretsmanager:GetSecretValue": ("kms:Decrypt",),
    "sqs:ReceiveMessage": ("kms:Decrypt",),
    "sqs:SendMessage": _MAKE_AND_READ,
}


def needs_of_lambda(template: Template) -> Iterator[tuple[str, Need]]:
    """(function, need) of what Lambda does with the functions' roles before and after they are invoked."""
    for name, function in template.made.functions().items():
        log = template.text(function["LoggingConfig"]["LogGroup"])
        stream = f"arn:aws:logs:{REGION}:{ACCOUNT}:log-group:{log}:log-stream:2026/11/20/[1]abc"
        yield from _each(name, _LOG, stream)
        if "VpcConfig" in function:
            yield from _each(name, _NETWORK, "*")
        if function.get("TracingConfig") == {"Mode": "Active"}:
            yield from _each(name, _TRACES, "*")
        for mapping in template.made.mappings(name):
            source = template.text(mapping["EventSourceArn"])
            yield from _each(name, _FROM_QUEUE if ":sqs:" in source else _FROM_STREAM, source)
            if "DestinationConfig" in mapping:
                failures = template.text(mapping["DestinationConfig"]["OnFailure"]["Destination"])
                yield name, Need("sqs:SendMessage", failures)


def needs_of_key(needs: Needs, key_arn: str) -> Iterator[tuple[str, Need]]:
    """What these needs bring with them, where all data is under this key."""
    for actor, need in needs:
        actions = _OF_KEY.get(need.action) or _OF_KEY.get(need.action.partition(":")[0], ())
        yield from _each(actor, actions, key_arn)


def _each(actor: str, actions: Iterable[str], resource: str) -> Iterator[tuple[str, Need]]:
    return ((actor, Need(action, resource)) for action in actions)
