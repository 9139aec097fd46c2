"""Parses a JSONPath: its root, and the steps from there."""

from __future__ import annotations

import re
from collections.abc import Callable

from stepwell.definition.asl.cursor import Cursor, unescaped
from stepwell.definition.asl.path_filters import FilterParser
from stepwell.definition.asl.path_steps import All, Descent, Filter, Indexes, Keys, Slice, Steps, function, is_single
from stepwell.definition.graph import Json
from stepwell.values import dataclass

PATH_HINT = "write a path like $.order.items[0], or $['a key with spaces']"

_ROOT = re.compile(r"\$(?:\$|[^\W\d]\w{0,79})?")
_NAME = re.compile(r"""(?:\\.|[^\s.\[\](){}'",*?\\])+""")
_NAME_IN_FILTER = re.compile(r"""(?:\\.|[^\s.\[\](){}'",*?\\=<>!&|~])+""")
_INDEX = re.compile(r"-?\d{1,9}")
_SLICE = re.compile(r"(-?\d{1,9})?\s*:\s*(-?\d{1,9})?")


@dataclass(frozen=True, slots=True)
class Path:
    """A parsed path. `root` is "" for `$`, "$" for `$$`, and else the name of a variable."""

    root: str
    steps: Steps
    compute: Callable[[Json], Json] | None = None  # the function behind it, as `.length()`

    @property
    def keys(self) -> tuple[str | int, ...] | None:
        """The steps, if they are keys and indexes alone."""
        found = tuple(step for step in self.steps if isinstance(step, (str, int)))
        return found if len(found) == len(self.steps) else None


def parse_path(cursor: Cursor) -> Path:
    """Reads a path as far as it goes. Raises ExpressionError."""
    root = cursor.match(_ROOT)
    if root is None:
        raise cursor.wrong("a path begins with $", PATH_HINT)
    steps = _StepParser(cursor, _NAME).steps()
    return Path(root[0][1:], steps, _function_of(cursor, steps))


def _function_of(cursor: Cursor, steps: Steps) -> Callable[[Json], Json] | None:
    """Returns the function whose call ends the path; its name was taken for a key."""
    if cursor.next != "(":
        return None
    name = steps.pop() if isinstance(steps, list) and steps else ""
    found = function(name) if isinstance(name, str) else None
    if found is None:
        raise cursor.wrong(f"there is no function {name!r} of paths", "use an intrinsic like States.ArrayLength($.x)")
    if not is_single(steps):
        raise cursor.wrong("a function is computed of one value, and this path may select many", "select one value")
    cursor.at += 1
    cursor.expect(")", "a path's function has no arguments")
    return found


class _StepParser:
    """Reads the steps of a path."""

    def __init__(self, cursor: Cursor, name: re.Pattern[str]) -> None:
        self._cursor, self._name = cursor, name
        self._steps: list[Json] = []

    def steps(self) -> list[Json]:
        cursor = self._cursor
        while True:
            if cursor.take(".."):
                self._steps.append(Descent())
                self._bracket() if cursor.next == "[" else self._key()
            elif cursor.take("."):
                self._key()
            elif cursor.next == "[":
                self._bracket()
            else:
                return [
                    Keys(step.names, last=False) if isinstance(step, Keys) and at < len(self._steps) - 1 else step
                    for at, step in enumerate(self._steps)
                ]

    def _key(self) -> None:
        if self._cursor.take("*"):
            self._steps.append(All())
        elif found := self._cursor.match(self._name):
            self._steps.append(unescaped(found[0]))
        else:
            raise self._cursor.wrong("a key is missing after the dot", PATH_HINT)

    def _bracket(self) -> None:
        cursor = self._cursor
        cursor.deeper()
        cursor.at += 1
        cursor.spaces()
        if cursor.take("*"):
            self._steps.append(All())
        elif cursor.take("?"):
            after_descent = bool(self._steps) and isinstance(self._steps[-1], Descent)
            self._steps.append(Filter(FilterParser(cursor, _steps_in_filter).filter(), after_descent))
        elif cursor.next in ("'", '"'):
            self._names()
        elif found := cursor.match(_SLICE):
            first, end = (None if text is None else int(text) for text in found.groups())
            self._steps.append(Slice(first, end))
        else:
            self._indexes()
        cursor.spaces()
        cursor.expect("]", "a bracket holds ['a key'], [0], [1:3], [*] or [?(@.x > 1)]")
        cursor.shallower()

    def _names(self) -> None:
        cursor = self._cursor
        names = [unescaped(cursor.quoted())]
        while self._comma():
            if cursor.next not in ("'", '"'):
                raise cursor.wrong("a key in quotes is missing", "write ['a','b']")
            names.append(unescaped(cursor.quoted()))
        self._steps.append(names[0] if len(names) == 1 else Keys(tuple(names), last=True))

    def _indexes(self) -> None:
        cursor = self._cursor
        places: list[int] = []
        while not places or self._comma():
            found = cursor.match(_INDEX)
            if found is None:
                raise cursor.wrong("an index or a key in quotes is missing", "write [0] for an index, ['a'] for a key")
            places.append(int(found[0]))
        self._steps.append(places[0] if len(places) == 1 else Indexes(tuple(places)))

    def _comma(self) -> bool:
        self._cursor.spaces()
        taken = self._cursor.take(",")
        self._cursor.spaces()
        return taken


def _steps_in_filter(cursor: Cursor) -> Steps:
    return _StepParser(cursor, _NAME_IN_FILTER).steps()
