"""The tree of a parsed CEL expression, read from the library's serialized form (the protobuf `cel.expr.CheckedExpr`).

The library offers no tree, but its serialized form is a published format that a small wire decoder can read. The tree
gives the names that an expression reads and, in `cel_eval`, its value.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Const:
    value: bool | int | float | str | bytes | None


@dataclass(frozen=True, slots=True)
class Given:
    """The place of a literal or a field name in a shape, whose expressions differ there: see `cel_shapes`."""

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
Fields: TypeAlias = dict[int, list["int | bytes"]]


def parse_tree(serialized: bytes) -> Tree:
    """Decodes the tree of a serialized expression (an `Any` with a `CheckedExpr`)."""
    checked = _fields(_bytes(_fields(serialized), 2))
    return _tree(_bytes(checked, 4))


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
    found: set[str | Given] = set()
    for node, bound in walk(tree):
        match node:
            case Select(operand=Ident(name=owner), field=member) if owner == name and name not in bound:
                found.add(member)
            case Call(
                function="_[_]", args=(Ident(name=owner), Const(value=str() as member) | (Given() as member))
            ) if owner == name and name not in bound:
                found.add(member)
    return frozenset(found)


def count(tree: Tree) -> int:
    return 1 + sum(count(child) for child in children(tree))


def _tree(data: bytes) -> Tree:
    fields = _fields(data)
    if 4 in fields:
        return Ident(_text(_fields(_bytes(fields, 4)), 1))
    if 5 in fields:
        select = _fields(_bytes(fields, 5))
        return Select(_tree(_bytes(select, 1)), _text(select, 2), bool(_int(select, 3)))
    if 6 in fields:
        call = _fields(_bytes(fields, 6))
        target = _tree(_bytes(call, 1)) if 1 in call else None
        return Call(_text(call, 2), target, _trees(call, 3))
    if 7 in fields:
        return ListOf(_trees(_fields(_bytes(fields, 7)), 1))
    if 8 in fields:
        return _map(_fields(_bytes(fields, 8)))
    if 9 in fields:
        fold = _fields(_bytes(fields, 9))
        parts = (_tree(_bytes(fold, number)) for number in (2, 4, 5, 6, 7))
        source, start, condition, step, result = parts
        return Fold(_text(fold, 1), source, _text(fold, 3), start, condition, step, result)
    return Const(_constant(_fields(_bytes(fields, 3))))


def _map(literal: Fields) -> Tree:
    if name := _text(literal, 1):
        return Message(name)
    entries = [_fields(_as_bytes(entry)) for entry in literal.get(2, [])]
    return MapOf(tuple((_tree(_bytes(entry, 3)), _tree(_bytes(entry, 4))) for entry in entries))


def _constant(fields: Fields) -> bool | int | float | str | bytes | None:
    if 2 in fields:
        return bool(_int(fields, 2))
    if 3 in fields:
        value = _int(fields, 3)
        return value - (1 << 64) if value >= 1 << 63 else value
    if 4 in fields:
        return _int(fields, 4)
    if 5 in fields:
        return float(struct.unpack("<d", _bytes(fields, 5))[0])
    if 6 in fields:
        return _text(fields, 6)
    if 7 in fields:
        return _bytes(fields, 7)
    return None


def _trees(fields: Fields, number: int) -> tuple[Tree, ...]:
    return tuple(_tree(_as_bytes(item)) for item in fields.get(number, []))


def _bytes(fields: Fields, number: int) -> bytes:
    return _as_bytes(fields.get(number, [b""])[-1])


def _as_bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise TypeError("found a number where the format has bytes")
    return value


def _text(fields: Fields, number: int) -> str:
    return _bytes(fields, number).decode()


def _int(fields: Fields, number: int) -> int:
    value = fields.get(number, [0])[-1]
    if isinstance(value, bytes):
        raise TypeError("found bytes where the format has a number")
    return value


def _fields(data: bytes) -> Fields:
    """Decodes one protobuf message: field number to its values, in order."""
    fields: Fields = {}
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        value: int | bytes
        match key & 7:
            case 0:
                value, at = _varint(data, at)
            case 1:
                value, at = data[at : at + 8], at + 8
            case 2:
                size, at = _varint(data, at)
                value, at = data[at : at + size], at + size
            case other:
                raise ValueError(f"wire type {other} is not used by CEL")
        fields.setdefault(key >> 3, []).append(value)
    return fields


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        shift += 7
        if byte < 0x80:
            return value, at
