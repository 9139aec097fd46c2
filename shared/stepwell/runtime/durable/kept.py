"""Guards what a closure shares with its function: a replay does not call the closure, so its changes would be lost.

    found = []
    await ctx.run(lambda: found.append(1))     # raises `lost_in_branch`: after a replay, `found` would be empty

Only code of the workflow folder is checked (see watching.py): calls such as `append`, and assignments to items and
attributes. Only what the closure itself names, or is given, is known.
"""

from __future__ import annotations

import dis
from collections import deque
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from types import CodeType, FunctionType, ModuleType
from typing import Any

from stepwell.definition.kept_outside import MUTATORS
from stepwell.errors import InvalidInput
from stepwell.runtime.durable.places import here, place

_PLAIN = (type(None), bool, int, float, complex, str, bytes, type, FunctionType, ModuleType)
_CONTAINERS = (list, dict, set, deque, bytearray)
_HINTS = {"lost_in_branch": "return it: a replay does not call this again",
          "read_only_query": "change it in the function, or in an update"}  # fmt: skip


class Kept:
    """The objects that `ctx.run`'s closure, or a query's, must not change: that raises an error with `code`."""

    def __init__(self, function: Callable[..., Any], code: str) -> None:
        self._code = code
        self._ids = {
            id(one): one for one in _held(function) if not isinstance(one, _PLAIN)
        }  # kept alive, so that no id is reused

    def check_call(self, called: Any) -> None:
        """Raises InvalidInput for a call of a method that changes one of the objects."""
        owner = getattr(called, "__self__", None)
        if id(owner) in self._ids and getattr(called, "__name__", "") in MUTATORS:
            self.check(owner, f"{type(owner).__name__}.{called.__name__}")

    def check(self, owner: Any, what: str = "") -> None:
        """Raises InvalidInput if an item or an attribute of one of the objects is about to be set."""
        if id(owner) in self._ids:
            raise _changes(what or f"an item or attribute of a {type(owner).__name__}", here(), self._code)


def check_rebinding(function: Callable[..., Any], code: str) -> None:
    """Raises InvalidInput for a closure that rebinds an outer variable, and for `found.append` itself."""
    while isinstance(function, partial):
        function = function.func
    owner = getattr(function, "__self__", None)
    if isinstance(owner, _CONTAINERS) and function.__name__ in MUTATORS:
        raise _changes(f"a {type(owner).__name__} by {function.__name__}", here(), code)
    inner = getattr(function, "__code__", None)
    if inner is not None and (found := _rebound(inner)):
        raise _changes(f"the variable {found}", place(inner.co_filename, inner.co_firstlineno), code)


def _changes(what: str, where: str, code: str) -> InvalidInput:
    return InvalidInput(f"it changes {what}, which is the function's around it{where}", code=code, hint=_HINTS[code])


@lru_cache(maxsize=1_024)
def _rebound(code: CodeType) -> str:
    """Returns the name of a free variable that the code rebinds; "" if it rebinds none."""
    if not code.co_freevars:
        return ""
    stored = (one.argval for one in dis.get_instructions(code) if one.opname in {"STORE_DEREF", "DELETE_DEREF"})
    return next((name for name in stored if name in code.co_freevars), "")


def _held(function: Callable[..., Any]) -> Iterator[Any]:
    while isinstance(function, partial):
        yield from (*function.args, *function.keywords.values())
        function = function.func
    for cell in getattr(function, "__closure__", None) or ():
        try:
            yield cell.cell_contents
        except ValueError:  # it has no value yet
            continue
