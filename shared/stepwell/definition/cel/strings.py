"""CEL's functions on text, and its extension `strings`. Positions count characters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from stepwell.errors import ExpressionError

_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f"
_SPACE += "\u205f\u3000"
_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}
_UPPER = {lower: upper for upper, lower in _LOWER.items()}
_ESCAPES = str.maketrans({"\a": r"\a", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\v": r"\v",
                          "\\": r"\\", '"': r"\""})  # fmt: skip
_PATTERNS = 16  # compiled ones that are kept; each may take megabytes


def _char_at(text: str, at: int) -> str:
    if at < 0:
        raise ExpressionError("<string>.charAt(<pos>): <pos> is less than 0")
    if at > len(text):
        raise ExpressionError("<string>.charAt(<pos>): <pos> is greater than <string>.size()")
    return text[at : at + 1]


def _index_of(text: str, part: str, at: int = 0) -> int:
    _check(text, at)
    return text.find(part, at)


def _last_index_of(text: str, part: str, at: int) -> int:
    _check(text, at)
    return text.rfind(part, 0, at + len(part))


def _check(text: str, at: int) -> None:
    if not 0 <= at <= len(text):
        raise ExpressionError(f"index out of range: {at}")


def _join(parts: list[Any], between: str = "") -> str:
    if not all(isinstance(part, str) for part in parts):
        raise ExpressionError("No matching overloads found : join")
    return between.join(parts)


def _split(text: str, between: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    if between:
        return text.split(between, limit - 1 if limit > 0 else -1)
    cut = min(limit - 1, len(text)) if limit > 0 else len(text)
    return [*text[:cut], *([text[cut:]] if cut < len(text) or not text else [])]


def _substring(text: str, start: int, end: int | None = None) -> str:
    end = len(text) if end is None else end
    if start < 0 or end < 0:
        raise ExpressionError("<string>.substring(<start>, <end>): <start> or <end> is less than 0")
    if start > len(text) or end > len(text):
        raise ExpressionError("<string>.substring(<start>, <end>): <start> or <end> is greater than <string>.size()")
    if end < start:
        raise ExpressionError("<string>.substring(<start>, <end>): <end> is less than <start>")
    return text[start:end]


def _matches(text: str, pattern: str) -> bool:
    try:
        return _compiled(pattern).search(text) is not None
    except _error() as error:
        given = error.args[0] if error.args else ""
        words = given.decode("utf-8", "replace") if isinstance(given, bytes) else str(given)
        raise ExpressionError(f"invalid regular expression: {words}") from None


@lru_cache(maxsize=_PATTERNS)
def _compiled(pattern: str) -> Any:
    """Compiles with RE2, whose time is linear in the text, whatever the pattern is."""
    import re2  # type: ignore[import-untyped]  # noqa: PLC0415 - few expressions have patterns

    options = re2.Options()
    options.log_errors = False
    compiled = re2.compile(pattern, options)
    re2.purge()  # its own cache, of 128
    return compiled


def _error() -> type[Exception]:
    import re2  # noqa: PLC0415 - see above

    kind: type[Exception] = re2.error
    return kind


FUNCTIONS: Mapping[str, Mapping[str, Callable[..., Any]]] = {
    "charAt": {"si": _char_at},
    "indexOf": dict.fromkeys(("ss", "ssi"), _index_of),
    "join": dict.fromkeys(("l", "ls"), _join),
    "lastIndexOf": {"ss": str.rfind, "ssi": _last_index_of},
    "lowerAscii": {"s": lambda text: text.translate(_LOWER)},
    "matches": {"ss": _matches},
    "reverse": {"s": lambda text: text[::-1]},
    "split": dict.fromkeys(("ss", "ssi"), _split),
    "strings.quote": {"s": lambda text: f'"{text.translate(_ESCAPES)}"'},
    "substring": dict.fromkeys(("si", "sii"), _substring),
    "trim": {"s": lambda text: text.strip(_SPACE)},
    "upperAscii": {"s": lambda text: text.translate(_UPPER)},
}
