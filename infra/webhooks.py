"""Which secrets the webhooks of a folder name, so that their function may read those and no others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import aws_cdk as cdk
import yaml

from infra.props import BadProperty
from infra.references import parameter_arn, secret_arn


def secret_arns(file: Path, stack: cdk.Stack) -> list[str]:
    """Of the secrets named by `secretsmanager:`. Raises BadProperty for what is not YAML."""
    return [secret_arn(name, stack) for name in _named(file, "secretsmanager")]


def parameter_arns(file: Path, stack: cdk.Stack) -> list[str]:
    """Of the parameters named by `ssm:`. Raises BadProperty for what is not YAML."""
    return [parameter_arn(name, stack) for name in _named(file, "ssm")]


def _named(file: Path, kind: str) -> Sequence[str]:
    """The names behind `<kind>:NAME[#field]` of all sources, sorted."""
    try:
        document = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise BadProperty(f"{file.name}: {error}") from error
    sources = document.get("sources") if isinstance(document, Mapping) else None
    if not isinstance(sources, Mapping):
        raise BadProperty(f"{file.name}: expected `sources:` with a name for each")
    prefix = f"{kind}:"
    return sorted(
        {text.removeprefix(prefix).partition("#")[0] for text in _secrets(sources) if text.startswith(prefix)}
    )


def _secrets(sources: Mapping[str, object]) -> Iterator[str]:
    """Each source has a secret, or a list of them while one is replaced by another."""
    for source in sources.values():
        named = source.get("secret") if isinstance(source, Mapping) else None
        for one in named if isinstance(named, list) else [named]:
            if isinstance(one, str):
                yield one
