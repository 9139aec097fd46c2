"""Secrets kept by AWS: `secretsmanager:NAME[#field]` and `ssm:NAME`, cached for five minutes."""

from __future__ import annotations

import json
from collections.abc import Callable

from stepwell.aws.calls import Retry
from stepwell.aws.clients import Clients
from stepwell.aws.failures import code_of
from stepwell.aws.protocols import SecretsManagerClient, SsmClient
from stepwell.definition.graph import Json
from stepwell.errors import PortError
from stepwell.limits import MINUTE_MS
from stepwell.runtime.calls.links import Links, keys_in
from stepwell.runtime.ports import Clock
from stepwell.runtime.steps.secrets import MISSING, EnvironmentSecrets, Secrets, SecretsByKind
from stepwell.settings import Deployment, environment

_ABSENT = frozenset({"ResourceNotFoundException", "ParameterNotFound"})
_MAKE = {  # the command that creates a missing secret
    "secretsmanager": "aws secretsmanager create-secret --name %s --secret-string SECRET",
    "ssm": "aws ssm put-parameter --type SecureString --name %s --value SECRET",
}
KEPT_MS = 5 * MINUTE_MS  # how long a changed secret may stay cached


class AwsSecrets:
    """Secrets by reference. NAME may be an ARN; a field selects a value of a JSON secret."""

    def __init__(
        self,
        secrets_manager: Callable[[], SecretsManagerClient],
        ssm: Callable[[], SsmClient],
        clock: Clock,
        retry: Retry | None = None,
    ) -> None:
        self._secrets_manager, self._ssm, self._clock, self._retry = secrets_manager, ssm, clock, retry or Retry()
        self._kept: dict[str, tuple[str, int]] = {}

    def get(self, reference: str) -> str:
        """Returns the secret, not empty. Raises PortError with its name, never its content."""
        whole, _, field = reference.partition("#")
        value, until_ms = self._kept.get(whole, ("", 0))
        if self._clock.now_ms() >= until_ms:
            value = self._read(whole)
            self._kept[whole] = value, self._clock.now_ms() + KEPT_MS
        secret = _field(value, field, reference) if field else value.rstrip("\r\n")
        if not secret:
            raise _unavailable(f"the secret {reference} is empty")
        return secret

    def _read(self, reference: str) -> str:
        try:
            return self._asked(reference)
        except PortError as error:
            if code_of(error.__cause__) not in _ABSENT:
                raise
            kind, _, name = reference.partition(":")
            raise PortError(f"there is no secret {reference}", code=MISSING, hint=_MAKE[kind] % name) from error

    def _asked(self, reference: str) -> str:
        kind, _, name = reference.partition(":")
        found: Json
        if kind == "secretsmanager":
            answer = self._retry.call(
                f"the secret {reference}: GetSecretValue",
                lambda: self._secrets_manager().get_secret_value(SecretId=name),
            )
            found = answer.get("SecretString")
        elif kind == "ssm":
            answer = self._retry.call(
                f"the secret {reference}: GetParameter",
                lambda: self._ssm().get_parameter(Name=name, WithDecryption=True),
            )
            found = answer["Parameter"]["Value"]
        else:
            raise _unavailable(f"AWS keeps no secrets of the kind {kind!r}")
        if not isinstance(found, str):
            raise _unavailable(f"the secret {reference} is not text")
        return found


def secrets_of(clients: Clients, clock: Clock) -> Secrets:
    """Returns a reader for secrets of the environment and of AWS."""
    kept = AwsSecrets(clients.secretsmanager, clients.ssm, clock)
    return SecretsByKind({"env": EnvironmentSecrets(environment()), "secretsmanager": kept, "ssm": kept})


def links_of(deployment: Deployment, clients: Clients, clock: Clock) -> Links | None:
    """Returns a signer of links with the stack's key, read on first use; None without a key."""
    if not deployment.link_secret:
        return None
    kept, reference = AwsSecrets(clients.secretsmanager, clients.ssm, clock), f"secretsmanager:{deployment.link_secret}"
    return Links(deployment.url, lambda: keys_in(kept.get(reference)))


def _field(value: str, field: str, reference: str) -> str:
    try:
        found = json.loads(value)[field]
    except (ValueError, LookupError, TypeError):
        raise _unavailable(f"{reference}: the secret is no JSON object with this field") from None  # not its text
    if not isinstance(found, str):
        raise _unavailable(f"{reference}: the field is not text")
    return found


def _unavailable(message: str) -> PortError:
    return PortError(message, code="secret_unavailable")
