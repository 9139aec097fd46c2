"""Makes the traceback of a failure for people: frames of users' code, without values, bounded in length."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from traceback import FrameSummary, format_list, walk_tb
from types import CodeType, TracebackType
from typing import TypeAlias

from stepwell.limits import TRACEBACK_BYTES, TRACEBACK_CAUSES, TRACEBACK_FRAMES
from stepwell.runtime.steps.folders import STEPWELL, own_place
from stepwell.runtime.steps.secrets import READ, masked_text

Mask: TypeAlias = Callable[[str], str]  # takes secrets out of a text

_HALF = TRACEBACK_FRAMES // 2
_ROOM = 20  # bytes for the line that says how many are left out
_LINE_CHARACTERS = 160  # limit of a line of code, or of a cause's message


def traceback_of(error: BaseException) -> str:
    """Returns the frames of users' modules and the innermost one of a library; "" if none is users' code."""
    mask = partial(masked_text, secrets=tuple(READ))  # other threads read secrets
    parts = _frames(error.__traceback__, mask)
    if not parts:
        return ""
    for link, beneath in islice(_beneath(error), TRACEBACK_CAUSES):
        parts += [f"{link} {type(beneath).__name__}: {_first_line(beneath, mask)}\n"]
        parts += _frames(beneath.__traceback__, mask)
    return _bounded([part.encode("utf-8", "replace").decode() for part in parts])


def own_line(error: BaseException) -> str:
    """Returns the innermost line of users' code that raised it, as `file:line`; "" if none did."""
    found = [(own_place(frame.f_code.co_filename), line) for frame, line in walk_tb(error.__traceback__)]
    own = [f"{place}:{line}" for place, line in found if place is not None]
    return own[-1] if own else ""


def _beneath(error: BaseException) -> Iterator[tuple[str, BaseException]]:
    """Yields the members of a group and the chain of causes, each with its link to the exception above it."""
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    members = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    for link, one in [*(("with", member) for member in members), ("caused by", cause)]:
        if one is not None:
            yield link, one
            yield from _beneath(one)


def _frames(trace: TracebackType | None, mask: Mask) -> list[str]:
    found = [(frame.f_code, line) for frame, line in walk_tb(trace)]
    own = [(place, code, line) for code, line in found if (place := own_place(code.co_filename)) is not None]
    if not own:
        return []
    code, line = found[-1]
    if own_place(code.co_filename) is None and not code.co_filename.startswith((STEPWELL, "<")):
        own.append((_library_place(code.co_filename), code, line))
    outer, inner = own[:_HALF], own[_HALF:][-_HALF:]
    above, below = ([_text(*one, mask) for one in part] for part in (outer, inner))
    return [*above, *_omitted(len(own) - 2 * _HALF), *below]


def _text(place: str, code: CodeType, line: int, mask: Mask) -> str:
    """Returns a frame as Python shows it, with its line of code and without values."""
    linecache.checkcache(code.co_filename)
    source = mask(linecache.getline(code.co_filename, line).strip())[:_LINE_CHARACTERS]
    return format_list([FrameSummary(place, line, code.co_name, lookup_line=False, line=source)])[0]


def _library_place(file: str) -> str:
    """Returns the file's path below the directory that its package is imported from."""
    above = max((entry for entry in sys.path if entry and file.startswith(f"{entry}/")), key=len, default="")
    return file[len(above) + 1 :] if above else Path(file).name


def _first_line(error: BaseException, mask: Mask) -> str:
    try:
        return mask(str(error)).partition("\n")[0][:_LINE_CHARACTERS]  # in this order: no half of a secret stays
    except Exception as worse:  # users' `__str__` may raise
        return f"its message cannot be shown: {type(worse).__name__}"


def _omitted(frames: int) -> list[str]:
    return [f"  … {frames} more\n"] if frames > 0 else []


def _bounded(parts: list[str]) -> str:
    """Returns the outermost and innermost parts as one text, as many as there is room for."""
    kept, left_out = parts, 0
    while len("".join(kept).encode()) > TRACEBACK_BYTES - _ROOM and len(kept) > 1:
        middle = len(kept) // 2
        kept, left_out = kept[:middle] + kept[middle + 1 :], left_out + 1
    middle = (len(kept) + 1) // 2
    text = "".join([*kept[:middle], *_omitted(left_out), *kept[middle:]])
    return text.encode()[:TRACEBACK_BYTES].decode("utf-8", "ignore").rstrip()
