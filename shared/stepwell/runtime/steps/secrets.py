"""Reads secrets by reference: `env:NAME` here; the kinds that AWS keeps, in `stepwell.aws.secrets`."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache
from typing import Protocol

from stepwell.definition.graph import Json
from stepwell.errors import PortError

MASK = "[secret]"
READ: set[str] = set()  # the secrets that steps of this process have read
_MASKED_CHARACTERS = 4  # a shorter secret would be part of too many words
_READ_CHARACTERS = 100_000  # of an error's text; more than a secret of AWS may have
_PASSWORD = re.compile(r"(\w://[^/\s:@]*:)[^/\s@]+@")  # of a URL
_SCHEME, _TOKEN = r"(?:Bearer|Basic|Digest) +", r"[\w.~+/=-]"
_AUTHORIZATION = re.compile(  # in prose, a short word after one of these is mostly none: `Basic authentication`
    rf"(\bauthorization\W{{1,8}}{_SCHEME}|\b{_SCHEME}(?={_TOKEN}{{16}})|^Bearer +(?=\S+$)"
    rf"|\bBearer +(?={_TOKEN}{{6}})(?={_TOKEN}*\d)){_TOKEN}+",
    re.IGNORECASE,
)
_NAME = r"(?:password|passphrase|passwd|(?<![a-z])pwd(?!=/)|secret|api[_-]?key|access[_-]?key)"  # PWD=/srv is a folder
MISSING = "secret_missing"  # a permanent error: another secret of the list may do


@cache  # made on first use: compiling it costs an import more than most modules
def _named() -> re.Pattern[str]:
    """`password=…`, `password="…"`, `"client_secret": "…"`; also in a text of JSON, whose quotes have a backslash.

    A quoted one goes up to the quote that it began with: it may have the other one, or the same behind a backslash.
    """
    return re.compile(
        rf"""(?P<quoted>{_NAME}(?:\s?=\s?|\\?["']\s?:\s?)(?P<quote>\\?["']))"""
        r"""(?:\\\\\\["']|(?!(?P=quote))(?:\\.|[^\\\n]))+"""
        rf"""|(?P<plain>{_NAME}\s?=\s?)(?!None\b)[^\s"'\\&;,(){{}}\[\]]{{3,}}""",
        re.IGNORECASE,
    )


@cache
def _names() -> re.Pattern[str]:
    return re.compile(rf"{_NAME}$", re.IGNORECASE)


class Secrets(Protocol):
    def get(self, reference: str) -> str:
        """Returns the secret, not empty. Raises PortError, which names the secret and never shows it."""


class EnvironmentSecrets:
    """`env:NAME`: the variables of the process."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    def get(self, reference: str) -> str:
        name = reference.removeprefix("env:")
        value = self._environ.get(name, "").rstrip("\r\n")
        if not value:
            raise PortError(f"the variable {name} is not set", code=MISSING, hint=f"set {name}")
        return value


class SecretsByKind:
    """Reads references that begin with `KIND:`, each from the source of that kind."""

    def __init__(self, kinds: Mapping[str, Secrets]) -> None:
        self._kinds = kinds

    def get(self, reference: str) -> str:
        kind = reference.partition(":")[0]
        if kind not in self._kinds:
            hint = f"what can be read is {', '.join(self._kinds) or 'none'}; list such a secret too"
            raise PortError(f"{reference} cannot be read here", code=MISSING, hint=hint)
        return self._kinds[kind].get(reference)


def masked_text(text: str, secrets: Iterable[str]) -> str:
    """Returns the beginning of a text of any length, such as an error's, masked: all that people are shown of it."""
    return masking(secrets)(text[:_READ_CHARACTERS])


def masking(secrets: Iterable[str]) -> Callable[[str], str]:
    """Returns a function that removes all of the secrets from a text, and credentials that their place gives away."""
    known = _masking_known(secrets)
    return lambda text: _without_credentials(known(text))


def _masking_known(secrets: Iterable[str]) -> Callable[[str], str]:
    wanted = sorted((one for one in secrets if len(one) >= _MASKED_CHARACTERS), key=len, reverse=True)
    if not wanted:
        return str
    pattern = re.compile("|".join(re.escape(one) for one in wanted))
    return lambda text: pattern.sub(MASK, text)


def _without_credentials(text: str) -> str:
    """`postgres://app:[secret]@db`, `Bearer [secret]`, `password=[secret]`: clients put them into their messages."""
    text = _AUTHORIZATION.sub(rf"\1{MASK}", _PASSWORD.sub(rf"\1{MASK}@", text))
    return _named().sub(lambda found: f"{found['quoted'] or found['plain']}{MASK}", text)


def base64_key(secret: str, reference: str) -> bytes:
    """Returns the key in a secret of Standard Webhooks: base64, with or without `whsec_`. Not empty.

    Raises PortError for any other text: with an empty key, anybody could sign.
    """
    try:
        key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except (binascii.Error, ValueError):
        raise PortError(f"{reference} is not `whsec_` and base64", code="secret_unavailable") from None
    if not key:
        raise PortError(f"{reference} is empty", code="secret_unavailable")
    return key


def without_secrets(value: Json, secrets: Collection[str]) -> Json:
    """Removes all of the secrets from the texts of a value. It is data: what only looks like a secret stays."""
    return _each_text(value, _masking_known(secrets)) if secrets else value


def without_credentials(value: Json, secrets: Collection[str]) -> Json:
    """Removes what `masking` removes from the texts of a value that tells of an error, and what is named a secret."""
    return _each_text(_without_named(value), masking(secrets))


def _without_named(value: Json) -> Json:
    if isinstance(value, list):
        return [_without_named(one) for one in value]
    if isinstance(value, dict):
        return {key: MASK if isinstance(one, str) and _names().search(key) else _without_named(one)
                for key, one in value.items()}  # fmt: skip
    return value


def _each_text(value: Json, change: Callable[[str], str]) -> Json:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [_each_text(one, change) for one in value]
    if isinstance(value, dict):
        return {change(key): _each_text(one, change) for key, one in value.items()}
    return value
