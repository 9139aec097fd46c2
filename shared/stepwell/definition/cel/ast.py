"""The tree of a parsed CEL expression, which gives the names that it reads and, in `cel.eval`, its value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from stepwell.values import dataclass


class NotCel(ValueError):
    """A source is no CEL expression; the message begins with the place, as the library's do."""


@dataclass(frozen=True, slots=True)
class Const:
    value: bool | int | float | str | bytes | None


@dataclass(frozen=True, slots=True)
class Given:
    """The place of a literal or a field name in a shape, whose expressions differ there: see `cel.shapes`."""

    at: int  # its position among those of the expression
    negative: bool = False  # a number after a minus sign

    def of(self, given: Sequence[Literal]) -> Literal:
        value = given[self.at]
        return value if isinstance(value, str) or not self.negative else -value


@dataclass(frozen=True, slots=True)
class Ident:
    name: str


@dataclass(frozen=True, slots=True)
class Select:
    operand: Tree
    field: str | Given
    test_only: bool


@dataclass(frozen=True, slots=True)
class Call:
    function: str
    target: Tree | None
    args: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class ListOf:
    items: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class MapOf:
    entries: tuple[tuple[Tree, Tree], ...]


@dataclass(frozen=True, slots=True)
class Message:
    """A protobuf message literal, which CEL has and JSON data does not need."""

    name: str


@dataclass(frozen=True, slots=True)
class Fold:
    """A comprehension: the expansion of the macros all, exists, exists_one, map and filter."""

    variable: str
    range: Tree
    accumulator: str
    start: Tree
    condition: Tree
    step: Tree
    result: Tree


Literal: TypeAlias = str | int | float
Tree: TypeAlias = Const | Given | Ident | Select | Call | ListOf | MapOf | Message | Fold


def children(tree: Tree) -> tuple[Tree, ...]:
    match tree:
        case Select():
            return (tree.operand,)
        case Call():
            return tree.args if tree.target is None else (tree.target, *tree.args)
        case ListOf():
            return tree.items
        case MapOf():
            return tuple(part for entry in tree.entries for part in entry)
        case Fold():
            return (tree.range, tree.start, tree.condition, tree.step, tree.result)
    return ()


def walk(tree: Tree, bound: frozenset[str] = frozenset()) -> Iterator[tuple[Tree, frozenset[str]]]:
    """Yields every node with the variables bound by enclosing comprehensions."""
    yield tree, bound
    if isinstance(tree, Fold):
        yield from walk(tree.range, bound)
        yield from walk(tree.start, bound)
        inner = bound | {tree.variable, tree.accumulator}
        for part in (tree.condition, tree.step, tree.result):
            yield from walk(part, inner)
        return
    for child in children(tree):
        yield from walk(child, bound)


def free_names(tree: Tree) -> frozenset[str]:
    """Returns the identifiers that no comprehension binds."""
    return frozenset(node.name for node, bound in walk(tree) if isinstance(node, Ident) and node.name not in bound)


def members_of(tree: Tree, name: str) -> frozenset[str | Given]:
    """Returns the members of a free name read as `name.member` or `name['member']`."""
    found = (_selected(node) for node, bound in walk(tree) if name not in bound)
    return frozenset(one[1] for one in found if one is not None and one[0] == Ident(name))


def inner_members_of(tree: Tree, name: str) -> frozenset[tuple[str | Given, str | Given]]:
    """Returns the members of a free name's members: `(member, inner)`. `has()` only asks whether there is one."""
    found: set[tuple[str | Given, str | Given]] = set()
    for node, bound in walk(tree):
        if name in bound or (isinstance(node, Select) and node.test_only) or (inner := _selected(node)) is None:
            continue
        if (outer := _selected(inner[0])) is not None and outer[0] == Ident(name):
            found.add((outer[1], inner[1]))
    return frozenset(found)


def _selected(tree: Tree) -> tuple[Tree, str | Given] | None:
    """Returns what `operand.member` or `operand['member']` reads."""
    match tree:
        case Select(operand=operand, field=member):
            return operand, member
        case Call(function="_[_]", args=(operand, Const(value=str() as member) | (Given() as member))):
            return operand, member
    return None


def count(tree: Tree) -> int:
    return 1 + sum(count(child) for child in children(tree))
