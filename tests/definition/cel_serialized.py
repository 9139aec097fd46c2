"""Reads the library's tree of a CEL expression from its serialized form (the protobuf `cel.expr.CheckedExpr`).

The library offers no tree, but that form is a published format that a small wire decoder can read.
"""

from __future__ import annotations

import struct
from typing import TypeAlias

from stepwell.definition.cel.ast import Call, Const, Fold, Ident, ListOf, MapOf, Message, Select, Tree

Fields: TypeAlias = dict[int, list["int | bytes"]]


def parse_tree(serialized: bytes) -> Tree:
    """Decodes the tree of a serialized expression (an `Any` with a `CheckedExpr`)."""
    checked = _fields(_bytes(_fields(serialized), 2))
    return _tree(_bytes(checked, 4))


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
