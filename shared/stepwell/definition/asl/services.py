"""Service integrations: tasks that call a service of AWS or an HTTP endpoint, by the `Resource` itself.

dynamodb:putItem               an API that Step Functions has an integration of its own for
aws-sdk:SERVICE:ACTION         any API; the service is named as in the SDK for Java, which has lower-case letters alone
http:invoke                    a host that HTTP steps may call

Nothing here knows the services' models. `stepwell.aws.services.models` checks parameters where botocore is installed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from stepwell.definition.graph import Json
from stepwell.definition.targets import BadUrlError, parse_url

NATIVE: Mapping[str, str] = {  # the services' names in the SDK
    "dynamodb:getItem": "dynamodb",
    "dynamodb:putItem": "dynamodb",
    "dynamodb:updateItem": "dynamodb",
    "dynamodb:deleteItem": "dynamodb",
    "events:putEvents": "eventbridge",
    "sns:publish": "sns",
    "sqs:sendMessage": "sqs",
}
LIST = "s3:listObjectsV2"
READS = ("s3:getObject", LIST)  # what an ItemReader calls
WRITE = "s3:putObject"  # what a ResultWriter calls
HTTP = "http:invoke"
INVOKE = "lambda:invoke"  # of a function that is computed, or that is not waited for
Uses: TypeAlias = tuple[tuple[str, str], ...]  # kind and name of what a step calls

_SDK_CALL = re.compile(r"aws-sdk:[a-z0-9]{1,60}:[a-z][A-Za-z0-9]{0,80}")
_QUEUE = re.compile(r"https://sqs\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?/(\d{12})/([\w.-]+)")
_HTTP_REFUSED = ("Authentication", "InvocationConfig")


def call_name(resource: str) -> str:
    """Returns the part of an integration's ARN that says what it calls, such as `sqs:sendMessage`."""
    return resource.split(":", 5)[-1]


def is_service(call: str) -> bool:
    """Tells whether a task can call this: not with a task token, nor if the call waits for a job."""
    return call in NATIVE or call == HTTP or _SDK_CALL.fullmatch(call) is not None


def in_sdk(call: str) -> tuple[str, str]:
    """Returns the service and the action of a call of AWS, as the SDK names them."""
    if call in NATIVE or call in (*READS, WRITE):
        service, _, action = call.partition(":")
        return NATIVE.get(call, service), action
    _, service, action = call.split(":")
    return service, action


def refusal(call: str, given: Json) -> tuple[str, str] | None:
    """Returns why a call with these parameters cannot run, and what to do. `given`: as written in the state."""
    if call != HTTP:
        return None
    written = given if isinstance(given, dict) else {}
    for name in _HTTP_REFUSED:
        if name in written or f"{name}.$" in written:
            hint = ("map the resource in resources.yaml to a Python function, "
                    "or write the call as a step `run: http:…` with `headers: {NAME: {secret: …}}`")  # fmt: skip
            return f"`{name}` of http:invoke is not supported: Stepwell has no EventBridge connections", hint
    endpoint = literal(given, "ApiEndpoint")
    if endpoint is None:
        return None
    try:
        parse_url(endpoint)
    except BadUrlError as error:
        return f"the task cannot call its ApiEndpoint: {error.message}", error.hint or "write https://…"
    return None


def uses(call: str, given: Json) -> Uses:
    """Returns what the worker needs for the call: an origin, or an action of IAM with its resource.

    `aws`: ACTION and the resource, where it is written out. `aws_own`: what no permission is derived for.
    """
    if call == HTTP:
        endpoint = literal(given, "ApiEndpoint")
        return () if endpoint is None else (("http", parse_url(endpoint).origin),)
    if call == INVOKE:
        name = literal(given, "FunctionName")
        versions = ("", ":*") if isinstance(given, dict) and given.keys() & {"Qualifier", "Qualifier.$"} else ("",)
        return (("aws_own", call),) if name is None else tuple(("lambda", f"{name}{one}") for one in versions)
    if call in (*READS, WRITE):
        return _of_bucket(call, given)
    service, action = in_sdk(call)
    find = _RESOURCES.get((service, action))
    found = [] if find is None else list(find(given))
    if not found or not all(found):
        return (("aws_own", f"{service}:{action}"),)
    iam = f"{_IAM.get(service, service)}:{action[0].upper()}{action[1:]}"
    return tuple(("aws", f"{iam} {resource}") for resource in dict.fromkeys(found))


def _of_bucket(call: str, given: Json) -> Uses:
    """A key that is computed may be any of its bucket, if that is written out."""
    bucket = literal(given, "Bucket")
    if bucket is None:
        return (("aws_own", call),)
    if call == LIST:
        return (("aws", f"s3:ListBucket s3:{bucket}"),)
    if call == WRITE:
        prefix = (literal(given, "Prefix") or "").rstrip("/")
        return (("aws", f"s3:PutObject s3:{bucket}/{prefix}{'/' if prefix else ''}*"),)
    version = "Version" if given.keys() & {"VersionId", "VersionId.$"} else ""
    return (("aws", f"s3:GetObject{version} s3:{bucket}/{literal(given, 'Key') or '*'}"),)


def literal(given: Json, name: str) -> str | None:
    """Returns a parameter if it is written out; None if it is computed or missing."""
    value = given.get(name) if isinstance(given, dict) else None
    return value if isinstance(value, str) and not value.startswith("{%") else None


# -- resources, as ARNs or as their last two parts: `table/NAME` of this account and region


Find: TypeAlias = Callable[[Json], Iterator[str]]


def _table(given: Json) -> Iterator[str]:
    name = literal(given, "TableName") or ""
    table = name if name.startswith("arn:") or not name else f"dynamodb:table/{name}"
    yield table
    if isinstance(given, dict) and given.keys() & {"IndexName", "IndexName.$"}:
        yield f"{table}/index/{literal(given, 'IndexName') or '*'}" if table else ""


def _queue(given: Json) -> Iterator[str]:
    found = _QUEUE.fullmatch(literal(given, "QueueUrl") or "")
    yield f"arn:{_partition(found[1])}:sqs:{found[1]}:{found[2]}:{found[3]}" if found else ""


def _partition(region: str) -> str:
    return "aws-cn" if region.startswith("cn-") else "aws-us-gov" if region.startswith("us-gov-") else "aws"


def _topic(given: Json) -> Iterator[str]:
    yield literal(given, "TopicArn") or literal(given, "TargetArn") or ""


def _buses(given: Json) -> Iterator[str]:
    entries = given.get("Entries") if isinstance(given, dict) else None
    for entry in entries if isinstance(entries, list) and entries else [None]:
        is_default = isinstance(entry, dict) and not entry.keys() & {"EventBusName", "EventBusName.$"}
        name = "default" if is_default else literal(entry, "EventBusName") or ""
        yield name if name.startswith("arn:") or not name else f"events:event-bus/{name}"


_IAM = {"eventbridge": "events"}
_RESOURCES: Mapping[tuple[str, str], Find] = {
    **{("dynamodb", f"{verb}Item"): _table for verb in ("get", "put", "update", "delete")},
    ("dynamodb", "query"): _table,
    ("dynamodb", "scan"): _table,
    ("eventbridge", "putEvents"): _buses,
    ("sns", "publish"): _topic,
    ("sqs", "sendMessage"): _queue,
}
