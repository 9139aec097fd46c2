"""Differences of JSON values, and the places in which undisturbed runs differ by themselves."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from stepwell.definition.graph import Json

_ABSENT = "(absent)"
_SHORT = 80  # characters of a value that is told

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """A place where two values differ."""

    path: Path
    expected: Json
    came: Json

    def __str__(self) -> str:
        return f"{'.'.join(self.path) or 'all of it'}: expected {short(self.expected)}, came {short(self.came)}"


def changes(expected: Json, came: Json, path: Path = ()) -> Iterator[Change]:
    """Yields the differences; of lists of different lengths the whole lists."""
    if isinstance(expected, dict) and isinstance(came, dict):
        for name in sorted({*expected, *came}):
            yield from changes(expected.get(name, _ABSENT), came.get(name, _ABSENT), (*path, name))
    elif isinstance(expected, list) and isinstance(came, list) and len(expected) == len(came):
        for index, (one, other) in enumerate(zip(expected, came, strict=True)):
            yield from changes(one, other, (*path, str(index)))
    elif expected != came or isinstance(expected, bool) is not isinstance(came, bool):
        yield Change(path, expected, came)


def beyond(found: Iterator[Change], varying: Collection[Path], ignored: Collection[str] = ()) -> list[Change]:
    """Returns the differences outside the places that vary by themselves, or are ignored by patterns: `world.*.at`."""
    return [
        one
        for one in found
        if not any(one.path[: len(place)] == place for place in varying)
        and not any(fnmatchcase(".".join(one.path), pattern) for pattern in ignored)
    ]


def varying_places(values: Sequence[Json]) -> frozenset[Path]:
    """Returns the places in which these values differ from the first."""
    return frozenset(one.path for value in values[1:] for one in changes(values[0], value))


def in_order(value: Json) -> Json:
    """Returns the value with all its lists in one order, to compare what is in them."""
    if isinstance(value, dict):
        return {name: in_order(one) for name, one in value.items()}
    if isinstance(value, list):
        return sorted((in_order(one) for one in value), key=lambda one: json.dumps(one, sort_keys=True))
    return value


def short(value: Json) -> str:
    """Returns the value as short JSON text."""
    text = value if value == _ABSENT else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHORT else f"{text[: _SHORT - 1]}…"
