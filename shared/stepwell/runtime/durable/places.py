"""Places in users' code, for errors: where a coroutine waits, and where what is running was called."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import stepwell
from stepwell.errors import InvalidInput

_NOT_USERS = (str(Path(asyncio.__file__).parent), str(Path(stepwell.__file__).parent))  # and `<frozen …>`, `<string>`


def foreign(what: str, place: str) -> InvalidInput:
    """Returns the error of a function that awaits what no record can tell of."""
    return InvalidInput(f"{what}{place}", code="foreign_await",
                        hint="a workflow awaits ctx's operations and asyncio's tasks, locks and sleeps; put the rest "
                        "into a step")  # fmt: skip


def here() -> str:
    """Returns the innermost line of users' code that is running, as ` at file:line`."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not _is_users(frame.f_code.co_filename):
        frame = frame.f_back
    return "" if frame is None else _place(frame.f_code.co_filename, frame.f_lineno)


def waits_at(coro: Any) -> str:
    """Returns the innermost line of users' code where a coroutine waits, as ` at file:line`."""
    found = ""
    while coro is not None:
        frame = getattr(coro, "cr_frame", None) or getattr(coro, "gi_frame", None)
        if frame is not None and _is_users(frame.f_code.co_filename):
            found = _place(frame.f_code.co_filename, frame.f_lineno)
        coro = getattr(coro, "cr_await", None) or getattr(coro, "gi_yieldfrom", None)
    return found


def _is_users(file: str) -> bool:
    return not file.startswith((*_NOT_USERS, "<"))


def _place(file: str, line: int) -> str:
    return f" at {Path(file).name}:{line}"
