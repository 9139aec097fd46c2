"""Converts the CDK's context, from cdk.json or `-c key=value`, to an engine's properties.

A value is text on the command line and may be JSON in cdk.json; both forms are accepted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from constructs import Construct

from stepwell.cdk.errors import BadProperty
from stepwell.cdk.props import EngineProps, Pool
from stepwell.project import OF_PROJECT

DEFAULT_FOLDER = "workflows"
DEFAULT_STACK = "Stepwell"
# What is otherwise on an emulator, most of it because it lacks a feature; each can still be set beside `emulator`.
EMULATOR: Mapping[str, Any] = {
    "platform": "local",
    "alarms": False,
    "live": True,
    "schedule_group": False,
    "auto_delete_objects": False,
    "removal_policy": "destroy",
}
_BESIDE = ("emulator", "stack_name")  # keys that are not properties of an engine
_RETENTIONS = {
    1: "ONE_DAY", 3: "THREE_DAYS", 7: "ONE_WEEK", 14: "TWO_WEEKS", 30: "ONE_MONTH", 60: "TWO_MONTHS",
    90: "THREE_MONTHS", 180: "SIX_MONTHS", 365: "ONE_YEAR", 731: "TWO_YEARS", 1827: "FIVE_YEARS", 3653: "TEN_YEARS",
}  # fmt: skip
_STACK_NAME = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,127}")
_ACTION = re.compile(r"\*|[A-Za-z0-9-]+:[A-Za-z0-9*]+")
_KEY_ARN = re.compile(r"arn:aws[a-z-]*:kms:[a-z0-9-]+:[0-9]{12}:key/[A-Za-z0-9-]+")
_ADDRESS = re.compile(r"[^@\s]+@[^@\s]+")
_POLICIES = {"retain": cdk.RemovalPolicy.RETAIN, "destroy": cdk.RemovalPolicy.DESTROY}


def stack_name(context: Mapping[str, Any]) -> str:
    """Returns the stack's name. Raises BadProperty."""
    means = "a name of a stack: a letter, then letters, digits and -, 128 at most"
    return _matching(_STACK_NAME, means, "stack_name", context.get("stack_name") or DEFAULT_STACK)


def read(stack: cdk.Stack, context: Mapping[str, Any]) -> EngineProps:
    """Builds the properties. Raises BadProperty for a bad value or an unknown key. `stack` owns imported resources."""
    ours = {key: value for key, value in context.items() if _is_ours(key)}
    _refuse_unknown(ours)
    given = {key: value for key, value in ours.items() if value not in ("", None) and key not in _BESIDE}
    if _flag("emulator", ours.get("emulator") or False):
        given = {**EMULATOR, **given}
    if "@" in str(given.get("alarms", "")):  # who is told of them
        given |= {"alarm_email": given["alarms"], "alarms": True}
    given.setdefault("folder", DEFAULT_FOLDER)
    values = {_PROPERTIES.get(key, key): _READERS[key](key, value) for key, value in given.items()}
    for name, make in _IMPORTED.items():
        if name in values:
            values[name] = make(stack, values[name])
    return EngineProps(**values)


def _is_ours(key: str) -> bool:
    """Returns whether a key is neither the CDK's own nor a cached lookup."""
    return not any(mark in key for mark in ":@/-")


def _refuse_unknown(keys: Mapping[str, Any]) -> None:
    names = (*_BESIDE, *_READERS)
    for key in keys:
        if key not in names:
            near = get_close_matches(key, (*names, *OF_PROJECT), 1)
            raise BadProperty(f"context: unknown property {key}" + (f"; is it {near[0]}?" if near else ""))


def _text(key: str, value: Any) -> str:
    if not isinstance(value, str):
        raise BadProperty(f"{key}: {value!r} is not text")
    return value


def _matching(pattern: re.Pattern[str], means: str, key: str, value: Any) -> str:
    """Checks what AWS would refuse only after minutes, and the CDK with a stack trace."""
    if not pattern.fullmatch(_text(key, value)):
        raise BadProperty(f"{key}: {value!r} is not {means}")
    return str(value)


_key_arn = partial(_matching, _KEY_ARN, "the ARN of a key: arn:aws:kms:REGION:ACCOUNT:key/ID")
_address = partial(_matching, _ADDRESS, "the address of a mailbox")


def _flag(key: str, value: Any) -> bool:
    flags = {True: True, False: False, "true": True, "false": False}
    if not isinstance(value, bool | str) or value not in flags:
        raise BadProperty(f"{key}: {value!r} is neither true nor false")
    return flags[value]


def _number(key: str, value: Any) -> int:
    if isinstance(value, str) and value.isdecimal():
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadProperty(f"{key}: {value!r} is not a whole number")
    return value


def _texts(key: str, value: Any) -> Sequence[str]:
    """Parses a list, its JSON, or text separated by commas."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        value = _json(key, value)
    texts = [text.strip() for text in value.split(",")] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(text, str) and text for text in texts):
        raise BadProperty(f"{key}: {value!r} is not a list of texts")
    return texts


def _json(key: str, value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError as error:
        raise BadProperty(f"{key}: {value!r} is not JSON: {error}") from error


def _object(key: str, value: Any) -> Mapping[str, Any]:
    if isinstance(value, str):
        value = _json(key, value)
    if not isinstance(value, dict):
        raise BadProperty(f"{key}: {value!r} is not an object")
    return value


def _chosen(table: Mapping[Any, Any], value: Any, key: str) -> Any:
    if value not in table:
        raise BadProperty(f"{key}: {value!r} is not one of {', '.join(str(one) for one in table)}")
    return table[value]


def _retention(key: str, value: Any) -> logs.RetentionDays:
    return logs.RetentionDays[_chosen(_RETENTIONS, _number(key, value), key)]


def _pools(key: str, value: Any) -> Mapping[str, Pool]:
    return {name: _pool(f"{key}.{name}", _object(f"{key}.{name}", pool)) for name, pool in _object(key, value).items()}


def _pool(key: str, given: Mapping[str, Any]) -> Pool:
    readers: Mapping[str, Reader] = {"memory_mb": _number, "timeout_seconds": _number, "concurrency": _number,
                                     "steps_per_invocation": _number, "environment": _variables,
                                     "permissions": _permissions}  # fmt: skip
    for name in given:
        _chosen(readers, name, key)
    try:
        return Pool(**{name: readers[name](f"{key}.{name}", value) for name, value in given.items()})
    except BadProperty as error:
        raise BadProperty(str(error) if str(error).startswith(key) else f"{key}.{error}") from error


def _permissions(key: str, value: Any) -> Sequence[iam.PolicyStatement]:
    if not isinstance(value, list):
        raise BadProperty(f"{key}: {value!r} is not a list of statements")
    return [_statement(key, _object(key, one)) for one in value]


def _variables(key: str, value: Any) -> Mapping[str, str]:
    return {name: _text(f"{key}.{name}", one) for name, one in _object(key, value).items()}


def _statement(key: str, given: Mapping[str, Any]) -> iam.PolicyStatement:
    if set(given) != {"actions", "resources"}:
        raise BadProperty(
            f"{key}: a statement needs actions and resources, but this one has {', '.join(sorted(given))}"
        )
    actions = f"{key}.actions"
    means = "an action such as s3:GetObject"
    return iam.PolicyStatement(
        actions=[_matching(_ACTION, means, actions, one) for one in _texts(actions, given["actions"])],
        resources=list(_texts(f"{key}.resources", given["resources"])),
    )


def _vpc(scope: Construct, given: Mapping[str, Any]) -> ec2.IVpc:
    if set(given) != {"id", "availability_zones", "subnet_ids"}:
        raise BadProperty(
            f"vpc: it needs id, availability_zones and subnet_ids, but this one has {', '.join(sorted(given))}"
        )
    return ec2.Vpc.from_vpc_attributes(
        scope,
        "Vpc",
        vpc_id=_text("vpc.id", given["id"]),
        availability_zones=list(_texts("vpc.availability_zones", given["availability_zones"])),
        private_subnet_ids=list(_texts("vpc.subnet_ids", given["subnet_ids"])),
    )


def _former_keys(scope: Construct, arns: Sequence[str]) -> Sequence[kms.IKey]:
    return [kms.Key.from_key_arn(scope, f"FormerKey{number}", arn) for number, arn in enumerate(arns)]


Reader = Callable[[str, Any], Any]
_READERS: Mapping[str, Reader] = {
    "folder": lambda key, value: Path(_text(key, value)),
    "python": _text,
    "pools": _pools,
    "auth": _text,
    "jwt_issuer": _text,
    "jwt_audience": _texts,
    "removal_policy": lambda key, value: _chosen(_POLICIES, _text(key, value), key),
    "auto_delete_objects": _flag,
    "kms_key_arn": _key_arn,
    "former_kms_key_arns": lambda key, value: [_key_arn(key, one) for one in _texts(key, value)],
    "alarms": _flag,
    "alarm_email": _address,
    "log_retention_days": _retention,
    "log_level": _text,
    "vpc": _object,
    "rate_per_second": _number,
    "open_rate_per_second": _number,
    "cors_origins": _texts,
    "max_steps": _number,
    "coordinator_concurrency": _number,
    "tracing": _flag,
    "aws_client": _text,
    "compress": _flag,
    "lanes": _flag,
    "snap_start": _flag,
    "otel_endpoint": _text,
    "events": _text,
    "http_hosts": _texts,
    "public_url": _text,
    "live": _flag,
    "console_client_id": _text,
    "console_login_urls": _texts,
    "schedule_group": _flag,
    "platform": _text,
    "bundle": _flag,
}
_PROPERTIES = {"log_retention_days": "log_retention", "kms_key_arn": "kms_key",
               "former_kms_key_arns": "former_kms_keys"}  # fmt: skip
_IMPORTED: Mapping[str, Callable[[Construct, Any], Any]] = {
    "vpc": _vpc,
    "kms_key": lambda scope, arn: kms.Key.from_key_arn(scope, "Key", arn),
    "former_kms_keys": _former_keys,
}
