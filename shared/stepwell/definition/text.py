"""Helpers for names and messages: valid names, JSON and pointers into it, and spelling suggestions."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
NAME_HINT = "letters, digits, `.`, `_` and `-`, beginning with a letter or digit"
STEP_OPTIONS = ("name", "retry", "timeout", "at_most_once", "pool", "throttle")


def pointer_part(key: object) -> str:
    text = str(key)
    if "~" not in text and "/" not in text:
        return text
    return text.replace("~", "~0").replace("/", "~1")


def pointer(path: Sequence[str | int]) -> str:
    return "".join(f"/{pointer_part(part)}" for part in path)


def counted(number: int, thing: str) -> str:
    """Returns `1 step`, `2 steps`."""
    return f"{number} {thing}{'' if number == 1 else 's'}"


def compact_json(value: Any) -> str:
    """Returns the value as JSON without spaces."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def one_line(text: str) -> str:
    """Shortens a text to one line, for a message."""
    line = " ".join(text.split())
    return f"`{line}`" if len(line) <= 120 else f"`{line[:117]}…`"


def did_you_mean(word: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Suggests the closest known word; "" if none is close."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=cutoff)
    return f"did you mean `{close[0]}`?" if close else ""


def closest(word: str, known: Iterable[str]) -> str:
    """Suggests the closest known word, or lists all words if there are few."""
    words = list(known)
    if len(words) > 100:  # comparing is slow, and a definition may have a thousand names and mistakes
        words = [other for other in words if other[:1] == word[:1]][:100]
    return did_you_mean(word, words) or (f"known: {', '.join(words)}" if 0 < len(words) <= 12 else "")


def option_hint(name: str) -> str:
    """What to do about a parameter that is called like an option of the call."""
    return f"in ctx.step and ctx.child, {name}= is an option: give the parameter by position"
