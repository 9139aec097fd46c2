"""Opens the thin client where it can serve; elsewhere boto3 does.

It cannot go through a proxy, has no endpoints but the standard ones and those that the environment names, and writes
no segments for X-Ray. It is not for a machine's profiles: Lambda says everything in the environment.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from stepwell.aws.thin.client import (
    DYNAMODB,
    EVENTS,
    SECRETS_MANAGER,
    SQS,
    SSM,
    Caller,
    Sends,
    Service,
    ThinDynamo,
    ThinEvents,
    ThinSecretsManager,
    ThinSqs,
    ThinSsm,
)
from stepwell.aws.thin.credentials import keys_of
from stepwell.aws.thin.signer import Key
from stepwell.aws.thin.wire import Place, Wire, place_of
from stepwell.settings import Aws, read_trace_id

CONNECT_SECONDS = 1
ANSWER_SECONDS = 3
CONNECTIONS = 32  # kept for each service
_KINDS: Mapping[str, tuple[Callable[[Caller], object], Service]] = {
    "dynamodb": (ThinDynamo, DYNAMODB),
    "events": (ThinEvents, EVENTS),
    "secretsmanager": (ThinSecretsManager, SECRETS_MANAGER),
    "sqs": (ThinSqs, SQS),
    "ssm": (ThinSsm, SSM),
}
_COMMON = re.compile(r"(us(-gov)?|eu|ap|sa|ca|me|af|il|mx)-[a-z]+-\d+")
_CHINA = re.compile(r"cn-[a-z]+-\d+")


class Thin:
    """Makes the clients of a process. They share the credentials."""

    def __init__(self, aws: Aws, key: Callable[[], Key], wire: Callable[[Place], Sends] | None = None) -> None:
        """`wire` opens the connections to an endpoint; tests pass their own."""
        self._aws, self._key, self._wire = aws, key, wire or self._open

    def client(self, service: str) -> object | None:
        """Makes the client of a service, by boto3's name for it. None: it has none."""
        if service not in _KINDS:
            return None
        kind, found = _KINDS[service]
        wire = self._wire(place_of(endpoint_of(service, self._aws)))
        return kind(Caller(found, self._aws.region, wire, self._key, trace_id=read_trace_id))

    def _open(self, place: Place) -> Wire:
        return Wire(place, connect_seconds=CONNECT_SECONDS, answer_seconds=ANSWER_SECONDS, kept=CONNECTIONS,
                    ca_file=self._aws.ca_file)  # fmt: skip


def open_thin(aws: Aws) -> Thin | None:
    """Returns the thin client, or None where the environment asks for boto3 or for something only boto3 can do."""
    if not aws.is_thin or aws.is_special or not all(endpoint_of(service, aws) for service in _KINDS):
        return None
    given = Key(aws.key_id, aws.key_secret, aws.key_token) if aws.key_id and aws.key_secret else None
    return Thin(aws, keys_of(given))


def endpoint_of(service: str, aws: Aws) -> str:
    """Returns the URL of a service's endpoint; empty for a region whose endpoints are not known here."""
    if found := aws.endpoints.get(service) or aws.endpoints.get(""):
        return found
    if _COMMON.fullmatch(aws.region):
        return f"https://{service}.{aws.region}.amazonaws.com"
    return f"https://{service}.{aws.region}.amazonaws.com.cn" if _CHINA.fullmatch(aws.region) else ""
