"""Regular expressions that are compiled when they are first used: a cold start needs few of them."""

from __future__ import annotations

import re
from typing import Any, cast


class _Lazy:
    """Stands for a pattern until one of its methods is asked for, which it keeps."""

    def __init__(self, text: str, flags: int) -> None:
        self._given = text, flags

    def __getattr__(self, name: str) -> Any:
        value = getattr(re.compile(*self._given), name)
        setattr(self, name, value)
        return value


def lazy(text: str, flags: int = 0) -> re.Pattern[str]:
    """Returns what behaves as `re.compile(text, flags)`."""
    return cast("re.Pattern[str]", _Lazy(text, flags))
