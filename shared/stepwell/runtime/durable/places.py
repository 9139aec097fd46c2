"""Finds places in users' code for errors: where a coroutine waits, and which line made the current call."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from traceback import walk_tb
from types import CodeType, FrameType
from typing import Any

import stepwell
from stepwell.errors import InvalidInput
from stepwell.runtime.steps.folders import own_place

_KNOWN: dict[CodeType, bool] = {}  # whether the code is users'
_KNOWN_MOST = 1_000
_NOT_USERS = (str(Path(asyncio.__file__).parent), str(Path(stepwell.__file__).parent))  # and `<…>`


def foreign(what: str, place: str) -> InvalidInput:
    """Returns the error of a function that awaits something that no record can restore."""
    return InvalidInput(f"{what}{place}", code="foreign_await",
                        hint="a workflow awaits ctx's operations and asyncio's tasks, locks and sleeps; put the rest "
                        "into a step")  # fmt: skip


def no_workflow() -> InvalidInput:
    """Returns the error of code that uses `ctx` outside of a running workflow."""
    return InvalidInput(f"ctx was used outside of its workflow{here()}", code="no_workflow",
                        hint="a step gets a context of its own, as its parameter ctx; pass it values")  # fmt: skip


def caller() -> tuple[CodeType, int] | None:
    """Returns the innermost running users' code and its line; None if there is none. Cheap: each operation calls it."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        code = frame.f_code
        is_users = _KNOWN.get(code)
        if is_users is None:
            is_users = _is_users(code.co_filename)
            if len(_KNOWN) < _KNOWN_MOST:
                _KNOWN[code] = is_users
        if is_users:
            return code, frame.f_lineno
        frame = frame.f_back
    return None


def shown(found: tuple[CodeType, int] | None) -> str:
    """Returns a place as ` at file:line`."""
    return "" if found is None else place(found[0].co_filename, found[1])


def here() -> str:
    """Returns the innermost running line of the workflow folder, else of a library, as ` at file:line`."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if own_place(frame.f_code.co_filename) is not None:
            return place(frame.f_code.co_filename, frame.f_lineno)
        frame = frame.f_back
    return shown(caller())


def waits_at(coro: Any) -> str:
    """Returns the innermost line where a coroutine waits: of the workflow folder, else of a library."""
    own = found = ""
    while coro is not None:
        frame = getattr(coro, "cr_frame", None) or getattr(coro, "gi_frame", None)
        if frame is not None and _is_users(frame.f_code.co_filename):
            found = place(frame.f_code.co_filename, frame.f_lineno)
            own = own if own_place(frame.f_code.co_filename) is None else found
        coro = getattr(coro, "cr_await", None) or getattr(coro, "gi_yieldfrom", None)
    return own or found


def raised_at(error: BaseException) -> str:
    """Returns the innermost line where an error was raised: of the workflow folder, else of a library."""
    own = found = ""
    for frame, line in walk_tb(error.__traceback__):
        if _is_users(file := frame.f_code.co_filename):
            found = place(file, line)
            own = own if own_place(file) is None else found
    return own or found


def _is_users(file: str) -> bool:
    return not file.startswith((*_NOT_USERS, "<"))


def place(file: str, line: int) -> str:
    """Returns a line of a file as ` at file:line`."""
    return f" at {Path(file).name}:{line}"
