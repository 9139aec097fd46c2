"""Identity policies as IAM reads them, as far as the engine's go: what it cannot read it refuses.

Of those on PyPI, `parliament` and `policy_sentry` lint and list; moto's own evaluator knows no `?` and takes an unmet
condition for a denial. ministack's is complete, and is what the tests of this one compare it with.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

_ELEMENTS = {"Sid", "Effect", "Action", "Resource", "Condition"}
_OPERATORS = {"StringEquals", "StringLike"}


@dataclass(frozen=True, slots=True)
class Need:
    """What a call needs: an action on a resource. `context` are the condition keys that the call comes with."""

    action: str
    resource: str
    context: frozenset[tuple[str, str]] = frozenset()

    def __str__(self) -> str:
        return f"{self.action} on {self.resource}"


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement, its references resolved."""

    effect: str
    actions: tuple[str, ...]
    resources: tuple[str, ...]
    conditions: tuple[tuple[str, str, tuple[str, ...]], ...] = ()  # operator, key, and the values that it may have

    def covers(self, need: Need) -> bool:
        """Whether the statement has something to say of it."""
        return (
            any(is_like(need.action.lower(), action.lower()) for action in self.actions)
            and any(is_like(need.resource, resource) for resource in self.resources)
            and all(_holds(need, *condition) for condition in self.conditions)
        )

    def split(self) -> Iterator[Statement]:
        """A statement for each of its actions on each of its resources."""
        for action in self.actions:
            for resource in self.resources:
                yield Statement(self.effect, (action,), (resource,), self.conditions)

    def __str__(self) -> str:
        return f"{', '.join(self.actions)} on {', '.join(self.resources)}"


def allows(statements: Iterable[Statement], need: Need) -> bool:
    """Something allows it, and nothing denies it."""
    effects = {statement.effect for statement in statements if statement.covers(need)}
    return effects == {"Allow"}


def read(statement: Mapping[str, Any]) -> Statement:
    """Raises ValueError for what is not understood: a test must not pass for that."""
    if unknown := set(statement) - _ELEMENTS:
        raise ValueError(f"not understood: {', '.join(sorted(unknown))}")
    if statement["Effect"] not in {"Allow", "Deny"}:
        raise ValueError(f"not understood: {statement['Effect']}")
    conditions = statement.get("Condition", {})
    if unknown := set(conditions) - _OPERATORS:
        raise ValueError(f"not understood: {', '.join(sorted(unknown))}")
    return Statement(
        statement["Effect"],
        tuple(_listed(statement["Action"])),
        tuple(_listed(statement["Resource"])),
        tuple(
            (operator, key, tuple(_listed(values)))
            for operator, keys in conditions.items()
            for key, values in keys.items()
        ),
    )


def _holds(need: Need, operator: str, key: str, values: Sequence[str]) -> bool:
    value = dict(need.context).get(key.lower())
    if operator == "StringLike":
        return value is not None and any(is_like(value, pattern) for pattern in values)
    return value in values


def is_like(text: str, pattern: str) -> bool:
    """`*` is any text, `?` one character."""
    return _compiled(pattern).fullmatch(text) is not None


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    parts = re.split(r"([*?])", pattern)
    return re.compile("".join({"*": ".*", "?": "."}.get(part, re.escape(part)) for part in parts), re.DOTALL)


def _listed(value: Any) -> Sequence[str]:
    return value if isinstance(value, list) else [value]
