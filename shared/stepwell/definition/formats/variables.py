"""Variables of the format `actions`: bare names in templates, looked up in the state and then in the run's input.

A missing variable is null, as in mustache: `{{ name.first }}` without a name is empty and no error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from stepwell.definition.graph import Json
from stepwell.definition.patterns import lazy

if TYPE_CHECKING:
    from stepwell.definition.cel.values import Budget

SOURCES = frozenset({"state", "input"})  # the names that variables are read from

_WORD = lazy(r"(?<![\w.])[A-Za-z_]\w*(?!\w*\s*\()")
_PATH = lazy(r"[A-Za-z_]\w*(\s*\.\s*[A-Za-z_]\w*)*", re.ASCII)
_CONSTANTS = frozenset({"true", "false", "null"})
_CEL_TYPES = frozenset({"bool", "bytes", "double", "dyn", "int", "list", "map", "null_type", "string", "type", "uint"})
_CEL_WORDS = _CONSTANTS | _CEL_TYPES | {"in", "math", "strings"}


def variable(names: Mapping[str, Json], name: str) -> Json:
    """Returns the variable's value, or null if there is none."""
    for source in ("state", "input"):
        found = names.get(source)
        if isinstance(found, dict) and name in found:
            return found[name]
    return None


def words_of(source: str) -> frozenset[str]:
    """Returns the words of a string-free expression that may be variables: no calls, members or CEL keywords."""
    return frozenset(_WORD.findall(source)) - _CEL_WORDS


class Lookup:
    """A template with only a name or a member: `{{ lastResponse }}`, `{{ candidate.name }}`."""

    __slots__ = ("_is_variable", "_path", "names", "reads_error", "state", "steps", "text")

    def __init__(self, text: str, path: tuple[str, ...], names: tuple[str, ...]) -> None:
        head, *members = path
        self.text = text
        self._path = path
        self._is_variable = head not in names
        self.names = SOURCES if self._is_variable else frozenset({head})
        self.reads_error = head == "error" or path[:2] == ("state", "_last_error")
        self.state = frozenset(members[:1]) if head == "state" else frozenset[str]()
        self.steps = frozenset(members[:1]) if head == "steps" else frozenset[str]()

    def evaluate_within(self, names: Mapping[str, Json], budget: Budget) -> Json:
        """Returns the value or null, and charges its size to a shared budget."""
        from stepwell.definition.cel.values import to_json  # noqa: PLC0415 - loaded when the first one is evaluated

        head, *members = self._path
        found = variable(names, head) if self._is_variable else names.get(head)
        for member in members:
            found = found.get(member) if isinstance(found, dict) else None
        return to_json(found, budget)


def lookup_of(text: str, source: str, names: tuple[str, ...]) -> Lookup | None:
    """Returns a Lookup, or None for an expression that is more than a name and its members."""
    if not _PATH.fullmatch(source):
        return None
    path = tuple(part.strip() for part in source.split("."))
    return None if path[0] in _CONSTANTS else Lookup(text, path, names)
