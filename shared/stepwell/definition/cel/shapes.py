"""Parses expressions that differ only in their literals and field names once.

The rules of a large definition are alike: `result.score > 1.5` and `result.total > 200.0`. The library takes most of
the time of a check, so each shape is parsed and compiled once, with a placeholder for each literal and field. The
types of literals stay in the shape, because the library checks them; all names are dynamic, so it knows nothing about
fields.
"""

from __future__ import annotations

import re

from stepwell.definition.cel.ast import Call, Const, Fold, Given, ListOf, Literal, MapOf, Select, Tree

_INT, _DOUBLE, _TEXT, _FIELD = 7_000_000_000_000_000, 700_000_000_000, "\N{SECTION SIGN}", "f__"
# What the scanner below does not know: escapes in strings, comments, quoted fields, message literals, exponents, and
# whatever could be taken for a placeholder.
_OTHER = re.compile(rf"\\|'''|\"\"\"|//|`|\w\s*\{{|\d[eE][+-]?\d|\d{{12}}|{_TEXT}|{_FIELD}")
_TOKEN = re.compile(
    r"((?<!\w)[A-Za-z]{1,2}(?:'[^'\n]*'|\"[^\"\n]*\")"  # text with a prefix stays as it is
    r"|'[^'\n]*'|\"[^\"\n]*\""
    r"|(?<![\w.])\d+(?:\.\d+)?(?![\w.])"
    r"|\.[A-Za-z_]\w*(?!\w|\s*\())"
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
    parts = _TOKEN.split(source)
    for at in range(1, len(parts), 2):
        word = parts[at]
        first, rest = word[0], word[1:]
        if first == ".":
            if rest not in _RESERVED:
                parts[at] = f".{_FIELD}{len(found)}"
                found.append(rest)
        elif first in "'\"":
            parts[at] = f"'{_TEXT}{len(found)}'"
            found.append(rest[:-1])
        elif "." in word and first.isdigit():
            parts[at] = f"{_DOUBLE + len(found)}.5"
            found.append(float(word))
        elif first.isdigit():
            parts[at] = str(_INT + len(found))
            found.append(int(word))
    return "".join(parts), found


def with_places(tree: Tree) -> Tree:
    """Returns the tree of a shape with a `Given` in the place of each placeholder."""
    match tree:
        case Const(value):
            return _constant(value)
        case Select(operand, str() as field, test_only):
            name = Given(int(field.removeprefix(_FIELD))) if field.startswith(_FIELD) else field
            return Select(with_places(operand), name, test_only)
        case Call(function, target, args):
            of = None if target is None else with_places(target)
            return Call(function, of, tuple([with_places(one) for one in args]))
        case ListOf(items):
            return ListOf(tuple([with_places(one) for one in items]))
        case MapOf(entries):
            return MapOf(tuple([(with_places(key), with_places(value)) for key, value in entries]))
        case Fold(variable, source, accumulator, start, condition, step, result):
            parts = (with_places(one) for one in (start, condition, step, result))
            return Fold(variable, with_places(source), accumulator, *parts)
    return tree


def _constant(value: bool | int | float | str | bytes | None) -> Const | Given:
    """Returns what a constant stands for; the parser has put a minus sign before a number into its constant."""
    match value:
        case bool() | bytes() | None:
            return Const(value)
        case str() if value.startswith(_TEXT):
            return Given(int(value.removeprefix(_TEXT)))
        case int() if abs(value) >= _INT:
            return Given(abs(value) - _INT, value < 0)
        case float() if abs(value) >= _DOUBLE:
            return Given(int(abs(value)) - _DOUBLE, value < 0)
    return Const(value)
