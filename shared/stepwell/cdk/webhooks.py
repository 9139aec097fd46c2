"""The stack's requirements for a folder's webhooks: sources, endpoints, and the secrets that they name.

Each function may read only the secrets of its own part.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import aws_cdk as cdk
import yaml
from constructs import Construct

from stepwell.cdk.errors import BadProperty
from stepwell.cdk.references import parameter_arn, secret_arn

_NOTHING: Mapping[str, object] = {}


@dataclass(frozen=True, slots=True)
class Named:
    """One part of the file, by name; empty if the part is missing."""

    entries: Mapping[str, object]

    def __bool__(self) -> bool:
        return bool(self.entries)

    def secret_arns(self, stack: cdk.Stack) -> list[str]:
        """Returns the ARNs of the `secretsmanager:` secrets."""
        return [secret_arn(name, stack) for name in self._named("secretsmanager:")]

    def parameter_arns(self, stack: cdk.Stack) -> list[str]:
        """Returns the ARNs of the `ssm:` parameters."""
        return [parameter_arn(name, stack) for name in self._named("ssm:")]

    def _named(self, prefix: str) -> list[str]:
        """Returns the names in `<kind>:NAME[#field]`, sorted."""
        texts = (text for text in self._secrets() if text.startswith(prefix))
        return sorted({text.removeprefix(prefix).partition("#")[0] for text in texts})

    def tell_unread(self, scope: Construct) -> None:
        """Tells which entries have secrets in variables alone: a deploy sets none of them."""
        for name, entry in self.entries.items():
            secrets = list(_secrets_of(entry))
            if secrets and all(one.startswith("env:") for one in secrets):
                message = (
                    f"webhooks.yaml: the functions do not have the secret of {name}, {' or '.join(secrets)}: "
                    "list one of secretsmanager: or ssm: beside it"
                )
                cdk.Annotations.of(scope).add_info(message)

    def _secrets(self) -> Iterator[str]:
        for entry in self.entries.values():
            yield from _secrets_of(entry)


def _secrets_of(entry: object) -> Iterator[str]:
    """Yields the secret references of an entry: one, or a list during a rotation."""
    named = entry.get("secret") if isinstance(entry, Mapping) else None
    for one in named if isinstance(named, list) else [named]:
        if isinstance(one, str):
            yield one


@dataclass(frozen=True, slots=True)
class Webhooks:
    """A folder's webhooks: incoming `sources` and outgoing endpoints (`out`)."""

    sources: Named = Named(_NOTHING)
    out: Named = Named(_NOTHING)


def read_webhooks(file: Path | None) -> Webhooks:
    """Reads the file; without one there are no webhooks. Raises BadProperty if it is not a valid webhooks file."""
    if file is None:
        return Webhooks()
    try:
        document = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise BadProperty(f"{file.name}: {error}") from error
    given = document if isinstance(document, Mapping) else {"": document}
    parts = [given.get(name, _NOTHING) for name in ("sources", "out")]
    if not given.keys() & {"sources", "out"} or not all(isinstance(part, Mapping) for part in parts):
        raise BadProperty(f"{file.name}: expected `sources:` or `out:` with a name for each")
    return Webhooks(*(Named(part) for part in parts))
