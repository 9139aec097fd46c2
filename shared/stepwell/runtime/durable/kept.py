"""Guards what a closure shares with its function: a replay does not call the closure, so its changes would be lost.

    found = []
    await ctx.run(lambda: found.append(1))     # raises `lost_in_branch`: after a replay, `found` would be empty

Only code of the workflow folder is checked (see watching.py): calls such as `append` and `heappush`, and assignments to
items and attributes. Known is what the closure names or is given, the object of a method, and what is in these.
"""

from __future__ import annotations

import bisect
import dis
import gc
import heapq
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, MutableMapping, MutableSequence, MutableSet
from functools import lru_cache, partial
from random import Random
from types import BuiltinMethodType, CodeType, FunctionType, ModuleType
from typing import Any

from stepwell.definition.kept_outside import CHANGERS, MUTATORS
from stepwell.errors import InvalidInput
from stepwell.runtime.durable.places import here, place
from stepwell.runtime.steps.folders import own_place

_PLAIN = (type(None), bool, int, float, complex, str, bytes, type, FunctionType, ModuleType)
_CONTAINERS = (list, dict, set, deque, bytearray, MutableSequence, MutableMapping, MutableSet)
_CACHE = type(lru_cache(len))
_CHANGERS = (*(getattr(module, name) for module in (heapq, bisect) for name in CHANGERS if hasattr(module, name)),
             Random.shuffle)  # fmt: skip
_MOST = 10_000  # objects that are looked at
_HINTS = {"lost_in_branch": "return it: a replay does not call this again",
          "read_only_query": "change it in the function, or in an update"}  # fmt: skip


class Kept:
    """The objects that `ctx.run`'s closure, or a query's, must not change: that raises an error with `code`.

    What a module has too, such as a client, is not the function's own: it may change.
    """

    def __init__(self, function: Callable[..., Any], code: str) -> None:
        self._code, self._roots = code, [*_held(function)]
        self._found: dict[int, tuple[Any, int]] | None = None  # by id: the object, and the id of what holds it

    def checked(self, called: Any) -> Any:
        """Returns what is about to be called. Raises InvalidInput for a method that changes one of the objects."""
        owner, name = getattr(called, "__self__", None), getattr(called, "__name__", "")
        if name in MUTATORS and (isinstance(called, BuiltinMethodType) or isinstance(owner, _CONTAINERS)):
            self.check(owner, f"{type(owner).__name__}.{name}")
        return partial(self._change, called) if _is_changer(called) else called

    def _change(self, called: Callable[..., Any], *args: Any, **named: Any) -> Any:
        for changed in args[:1]:
            self.check(changed, f"a {type(changed).__name__} by {called.__name__}")
        return called(*args, **named)

    def check(self, owner: Any, what: str = "") -> None:
        """Raises InvalidInput if an item or an attribute of one of the objects is about to be set."""
        if self._found is None:  # most code of `ctx.run` changes nothing
            self._found = _reached(self._roots)
        if id(owner) in self._found and not _are_of_a_module(self._holding(self._found, owner)):
            raise _changes(what or f"an item or attribute of the {type(owner).__name__}", here(), self._code)

    @staticmethod
    def _holding(found: dict[int, tuple[Any, int]], owner: Any) -> Iterator[Any]:
        """Yields the object, what holds it, and so on."""
        held = id(owner)
        while held:
            one, held = found[held]
            yield one


def _reached(roots: list[Any]) -> dict[int, tuple[Any, int]]:
    """Returns the objects by id, with those in them. They stay alive, so that no id is used again."""
    found: dict[int, tuple[Any, int]] = {}
    left = deque((one, 0) for one in roots)
    while left and len(found) < _MOST:
        one, holder = left.popleft()
        if id(one) not in found and not isinstance(one, _PLAIN):
            found[id(one)] = one, holder
            left += ((part, id(one)) for part in _parts(one))
    return found


def _parts(one: Any) -> Iterable[Any]:
    """Returns the items of a container, or the attributes of an object of the folder's classes."""
    if isinstance(one, dict):
        return list(one.values())
    if isinstance(one, list | tuple | set | frozenset | deque):
        return list(one)
    if isinstance(one, _CACHE):  # of `lru_cache`: it refers to what it has kept
        return gc.get_referents(one)
    return list(getattr(one, "__dict__", {}).values()) if _is_own(sys.modules.get(type(one).__module__)) else ()


def _are_of_a_module(holding: Iterable[Any]) -> bool:
    """Tells whether a module has one of these, or one of the folder's modules has it in a container or a cache."""
    shared = [value for module in list(sys.modules.values()) for value in list(vars(module).values())]
    ids = {id(value) for value in shared}
    own = [value for module in list(sys.modules.values()) if _is_own(module) for value in list(vars(module).values())]
    ids |= _reached(own).keys()
    return any(id(one) in ids for one in holding)


def _is_own(module: ModuleType | None) -> bool:
    return own_place(getattr(module, "__file__", None) or "") is not None


def _is_changer(called: Any) -> bool:
    """Tells whether it is a function of the standard library that changes its first argument."""
    own = getattr(called, "__func__", called)
    return getattr(called, "__name__", "") in CHANGERS and any(own is one for one in _CHANGERS)


def check_rebinding(function: Callable[..., Any], code: str) -> None:
    """Raises InvalidInput for a closure that rebinds an outer variable, and for `found.append` itself."""
    args: tuple[Any, ...] = ()
    while isinstance(function, partial):
        args, function = (*function.args, *args), function.func
    owner = args[0] if args and _is_changer(function) else getattr(function, "__self__", None)
    if isinstance(owner, _CONTAINERS) and function.__name__ in MUTATORS | CHANGERS:
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
    if not isinstance(owner := getattr(function, "__self__", None), _PLAIN):
        yield owner
    for cell in getattr(function, "__closure__", None) or ():
        try:
            yield cell.cell_contents
        except ValueError:  # it has no value yet
            continue
