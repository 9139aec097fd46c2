"""What a folder's webhooks need of the stack: whether there are sources and endpoints, and which secrets they name.

Each function may read the secrets of its own part and no others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import aws_cdk as cdk
import yaml

from infra.props import BadProperty
from infra.references import parameter_arn, secret_arn

_NOTHING: Mapping[str, object] = {}


@dataclass(frozen=True, slots=True)
class Named:
    """One part of the file: what it names, by names of its own. Empty: there is no such part."""

    entries: Mapping[str, object]

    def __bool__(self) -> bool:
        return bool(self.entries)

    def secret_arns(self, stack: cdk.Stack) -> list[str]:
        """Of the secrets named by `secretsmanager:`."""
        return [secret_arn(name, stack) for name in self._named("secretsmanager:")]

    def parameter_arns(self, stack: cdk.Stack) -> list[str]:
        """Of the parameters named by `ssm:`."""
        return [parameter_arn(name, stack) for name in self._named("ssm:")]

    def _named(self, prefix: str) -> list[str]:
        """The names behind `<kind>:NAME[#field]`, sorted."""
        texts = (text for text in self._secrets() if text.startswith(prefix))
        return sorted({text.removeprefix(prefix).partition("#")[0] for text in texts})

    def _secrets(self) -> Iterator[str]:
        """Each entry has a secret, or a list of them while one is replaced by another."""
        for entry in self.entries.values():
            named = entry.get("secret") if isinstance(entry, Mapping) else None
            for one in named if isinstance(named, list) else [named]:
                if isinstance(one, str):
                    yield one


@dataclass(frozen=True, slots=True)
class Webhooks:
    """`sources` are those that call; `out` the endpoints that are told."""

    sources: Named = Named(_NOTHING)
    out: Named = Named(_NOTHING)


def read_webhooks(file: Path | None) -> Webhooks:
    """None: there is no file. Raises BadProperty for what is not YAML, or none of webhooks."""
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
