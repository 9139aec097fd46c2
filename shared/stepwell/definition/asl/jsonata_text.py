"""Reads the text of a JSONata expression as far as its library does not tell: its names, and where a mistake is."""

from __future__ import annotations

import re
from collections.abc import Callable

_TOKENS = re.compile(
    r"""(?P<comment>/\*.*?\*/)|(?P<quoted>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|`[^`]*`)"""
    r"""|(?P<name>\$\w+)|(?P<word>\w+)|(?P<space>\s+)|(?P<other>.)""",
    re.DOTALL,
)
_MENTIONED = re.compile(r"\$(\w+)")
_ERROR_OUTPUT = re.compile(r"\$states\s*\.\s*[`\"']?errorOutput\b")
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_MAX_PROBES = 400  # each compiles a part of the expression, to find where it is wrong


def mentioned(body: str) -> frozenset[str]:
    """Returns every name after a `$`, even in a text or a comment: more than the expression uses, but never less."""
    return frozenset(_MENTIONED.findall(body))


def reads_error_output(body: str) -> bool:
    return _ERROR_OUTPUT.search(body) is not None


def place_of_name(body: str, name: str) -> int | None:
    """Returns where `$name` is written outside of texts and comments; None if it is not."""
    for token in _TOKENS.finditer(body):
        if token["name"] == f"${name}":
            return token.start()
    return None


def place_of_mistake(body: str, message: str, failing: Callable[[str], str | None]) -> int | None:
    """Returns where the library stopped, which it does not say; None: unknown. `failing` tries a part of the text."""
    if "end of expression" in message or "terminated" in message or "nclosed" in message:
        return body.rfind("/*") if "comment" in message else _left_open(body)
    tokens = [token for token in _TOKENS.finditer(body) if not token["space"] and not token["comment"]]
    if len(tokens) > _MAX_PROBES:
        return None
    return next((token.start() for token in tokens if failing(body[: token.end()]) == message), None)


def _left_open(body: str) -> int:
    """Returns where the last bracket or quote is that nothing closes; the end, if there is none."""
    opened: list[tuple[str, int]] = []
    for token in _TOKENS.finditer(body):
        mark = token["other"]
        if mark in ("'", '"', "`"):  # a whole text would have been one token
            return token.start()
        if mark in _CLOSING:
            opened.append((mark, token.start()))
        elif opened and mark == _CLOSING[opened[-1][0]]:
            opened.pop()
    return opened[-1][1] if opened else len(body)


def line_and_column(text: str, offset: int) -> str:
    line = text.count("\n", 0, offset) + 1
    column = offset - (text.rfind("\n", 0, offset) + 1) + 1
    return f"column {column}" if "\n" not in text else f"line {line}, column {column}"
