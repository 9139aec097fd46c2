"""Reads the quoted literals of CEL: text and bytes, raw or with escapes."""

from __future__ import annotations

import re

from stepwell.definition.cel.ast import NotCel

_ESCAPE = re.compile(
    r"\\(?:(?P<one>[abfnrtv\"'\\?`])|[xX](?P<hex>[\da-fA-F]{2})|(?P<octal>[0-3][0-7]{2})"
    r"|u(?P<short>[\da-fA-F]{4})|U(?P<long>[\da-fA-F]{8})|(?P<bad>.?))",
    re.S | re.A,
)
_ONE = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_LAST, _SURROGATES = 0x10FFFF, range(0xD800, 0xE000)


def text_of(literal: str) -> str:
    raw, inner = _inner(literal)
    return inner if raw else _ESCAPE.sub(lambda found: chr(_code_point(found)), inner)


def bytes_of(literal: str) -> bytes:
    """Reads b'…', in which an escape is a byte and any other character its UTF-8."""
    raw, inner = _inner(literal[1:])
    if raw:
        return inner.encode()
    made, at = bytearray(), 0
    for found in _ESCAPE.finditer(inner):
        if found["short"] or found["long"]:
            raise _illegal(found[0])
        made += inner[at : found.start()].encode()
        made.append(_code_point(found))
        at = found.end()
    return bytes(made) + inner[at:].encode()


def _inner(literal: str) -> tuple[bool, str]:
    raw = literal[0] in "rR"
    quoted = literal[1:] if raw else literal
    width = 3 if len(quoted) >= 6 and quoted[:3] in ('"""', "'''") else 1
    return raw, quoted[width:-width]


def _code_point(found: re.Match[str]) -> int:
    if found["one"]:
        return ord(_ONE.get(found["one"], found["one"]))
    if found["octal"]:
        return int(found["octal"], 8)
    digits = found["hex"] or found["short"] or found["long"]
    if not digits or (point := int(digits, 16)) > _LAST or point in _SURROGATES:
        raise _illegal(found[0])
    return point


def _illegal(text: str) -> NotCel:
    return NotCel(f"<input>:1:1: Syntax error: illegal escape sequence {text}")
