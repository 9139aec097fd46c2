"""Secrets kept by AWS: `secretsmanager:NAME[#field]` and `ssm:NAME`, cached for five minutes, and through an outage."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import field, replace

from stepwell.aws.calls import Meaning, Retry, meaning_of
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
from stepwell.values import dataclass

_ABSENT = frozenset({"ResourceNotFoundException", "ParameterNotFound"})
_MAKE = {  # the command that creates a missing secret
    "secretsmanager": "aws secretsmanager create-secret --name %s --secret-string SECRET",
    "ssm": "aws ssm put-parameter --type SecureString --name %s --value SECRET",
}
KEPT_MS = 5 * MINUTE_MS  # how long a changed secret may stay cached
OUTAGE_MS = 60 * MINUTE_MS  # how much longer while its service does not answer

_logger = logging.getLogger("stepwell.aws")


@dataclass(frozen=True, slots=True)
class _Kept:
    """A secret as it was read, and until when it is not asked for again."""

    value: str = field(repr=False)
    read_ms: int
    until_ms: int


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
        self._kept: dict[str, _Kept] = {}

    def get(self, reference: str) -> str:
        """Returns the secret, not empty. Raises PortError with its name, never its content."""
        whole, _, name = reference.partition("#")
        kept = self._kept.get(whole)
        if kept is None or self._clock.now_ms() >= kept.until_ms:
            kept = self._kept[whole] = self._renewed(whole, kept)
        secret = _field(kept.value, name, reference) if name else kept.value.rstrip("\r\n")
        if not secret:
            raise _unavailable(f"the secret {reference} is empty")
        return secret

    def _renewed(self, reference: str, kept: _Kept | None) -> _Kept:
        """Reads the secret. Through an outage of its service, what was read before counts for another hour."""
        try:
            value = self._read(reference)
        except PortError as error:
            now_ms = self._clock.now_ms()
            if kept is None or now_ms >= kept.read_ms + KEPT_MS + OUTAGE_MS or not _is_outage(error):
                raise
            minutes = (now_ms - kept.read_ms) // MINUTE_MS
            _logger.warning("the secret of %d minutes ago still counts: %s", minutes, error)
            return replace(kept, until_ms=now_ms + MINUTE_MS)
        now_ms = self._clock.now_ms()
        return _Kept(value, now_ms, now_ms + KEPT_MS)

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


def _is_outage(error: PortError) -> bool:
    """Tells whether the service did not answer, or had too much to do. It did not say that the secret is gone."""
    cause = error.__cause__
    return isinstance(cause, Exception) and meaning_of(cause) in (Meaning.BUSY, Meaning.UNKNOWN)


def _unavailable(message: str) -> PortError:
    return PortError(message, code="secret_unavailable")
