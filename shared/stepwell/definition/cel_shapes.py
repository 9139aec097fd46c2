"""Parses expressions that differ only in their literals and field names once.

The rules of a large definition are alike: `result.score > 1.5` and `result.total > 200.0`. The library takes most of
the time of a check, so it parses each shape once, with a placeholder for each literal and field. The types of literals
stay in the shape, because the library checks them; all names are dynamic, so it knows nothing about fields.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TypeAlias

from stepwell.definition.cel_ast import Call, Const, Fold, Ident, ListOf, MapOf, Message, Select, Tree

Literal: TypeAlias = str | int | float

_INT, _DOUBLE, _TEXT, _FIELD = 7_000_000_000_000_000, 700_000_000_000, "\N{SECTION SIGN}", "f__"
# What the scanner below does not know: escapes in strings, comments, quoted fields, message literals, and whatever
# could be taken for a placeholder.
_OTHER = re.compile(rf"\\|'''|\"\"\"|//|`|\w\s*\{{|\d{{12}}|{_TEXT}|{_FIELD}")
_TOKEN = re.compile(
    r"[rRbBuU]{1,2}(?:'[^'\n]*'|\"[^\"\n]*\")"  # text with a prefix stays as it is
    r"|(?P<text>'[^'\n]*'|\"[^\"\n]*\")"
    r"|(?<![\w.])(?P<double>\d+\.\d+(?![\w.]))"
    r"|(?<![\w.])(?P<int>\d+(?![\w.]))"
    r"|\.(?P<field>[A-Za-z_]\w*)(?!\w|\s*\()"
    r"|\d[\w.]*|[A-Za-z_]\w*"  # a number of another form, or a name
)
# Words that cannot be fields.
_RESERVED = frozenset({"as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in",
                       "let", "loop", "namespace", "null", "package", "return", "true", "var", "void",
                       "while"})  # fmt: skip


def shape_of(source: str) -> tuple[str, list[Literal]]:
    """Returns the source with a placeholder for each literal and field, and what stands there."""
    found: list[Literal] = []
    if _OTHER.search(source):
        return source, found

    def placeholder(token: re.Match[str]) -> str:
        kind, number = token.lastgroup, len(found)
        if kind is None or token[0][1:] in _RESERVED:
            return token[0]
        made: tuple[Literal, str]
        if kind == "text":
            made = token[0][1:-1], f"'{_TEXT}{number}'"
        elif kind == "double":
            made = float(token[0]), f"{_DOUBLE + number}.5"
        elif kind == "int":
            made = int(token[0]), str(_INT + number)
        else:
            made = token["field"], f".{_FIELD}{number}"
        found.append(made[0])
        return made[1]

    return _TOKEN.sub(placeholder, source), found


def parse_by_shape(source: str, parse: Callable[[str], Tree]) -> Tree:
    """Returns the tree of a source. `parse` keeps the trees that it has made."""
    shape, literals = shape_of(source)
    return _filled(parse(shape), literals) if literals else parse(source)


def _filled(tree: Tree, given: Sequence[Literal]) -> Tree:
    """Returns the tree with the literals and fields in the place of their placeholders."""
    match tree:
        case Const(value):
            return Const(_literal(value, given))
        case Select(operand, field, test_only):
            name = given[int(field.removeprefix(_FIELD))] if field.startswith(_FIELD) else field
            return Select(_filled(operand, given), str(name), test_only)
        case Call(function, target, args):
            of = None if target is None else _filled(target, given)
            return Call(function, of, tuple([_filled(one, given) for one in args]))
        case ListOf(items):
            return ListOf(tuple([_filled(one, given) for one in items]))
        case MapOf(entries):
            return MapOf(tuple([(_filled(key, given), _filled(value, given)) for key, value in entries]))
        case Fold(variable, source, accumulator, start, condition, step, result):
            parts = (_filled(one, given) for one in (start, condition, step, result))
            return Fold(variable, _filled(source, given), accumulator, *parts)
        case Ident() | Message():
            return tree


def _literal(
    value: bool | int | float | str | bytes | None, given: Sequence[Literal]
) -> bool | int | float | str | bytes | None:
    """Returns what a constant stands for; the parser has put a minus sign before a number into its constant."""
    match value:
        case bool() | bytes() | None:
            return value
        case str():
            return given[int(value.removeprefix(_TEXT))] if value.startswith(_TEXT) else value
        case int() if abs(value) >= _INT:
            found = given[abs(value) - _INT]
        case float() if abs(value) >= _DOUBLE:
            found = given[int(abs(value)) - _DOUBLE]
        case _:
            return value
    assert not isinstance(found, str)  # noqa: S101 - a placeholder has the type of its literal
    return -found if value < 0 else found
