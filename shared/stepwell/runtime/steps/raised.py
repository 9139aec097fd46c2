"""A step's exception as data, and the exception made again: as its own class, where that can be imported and built."""

from __future__ import annotations

import json
import sys
import typing
from collections.abc import Mapping
from functools import lru_cache
from importlib import import_module
from typing import Any, TypeVar

from stepwell.definition.graph import Json
from stepwell.engine.records import Failure
from stepwell.errors import StepwellError
from stepwell.runtime.steps.binding import BadOutputError, to_json

E = TypeVar("E", bound=Exception)

_CHARACTERS = 4_000  # of the arguments and fields; an exception with more is caught as StepFailed alone
_NOT_THROWN = (StopIteration, StopAsyncIteration, StepwellError, BadOutputError)  # into coroutines, or at users
_OF_FAILURES = ("type", "category", "data")  # of a StepFailed; the exception's own fields of these names win


def described(error: BaseException) -> Json:
    """How to make this exception again. None where that is not possible: some of it cannot be stored, or found."""
    kind = type(error)
    name = f"{kind.__module__}:{kind.__qualname__}"
    if not isinstance(error, Exception) or isinstance(error, _NOT_THROWN) or _found(name, import_it=False) is not kind:
        return None
    try:
        args, fields = to_json(list(error.args)), to_json(vars(error))
    except BadOutputError:
        return None
    made = {"class": name, **({"args": args} if args else {}), **({"fields": fields} if fields else {})}
    return made if len(json.dumps(made)) <= _CHARACTERS else None


def as_itself(failure: Failure, base: type[E]) -> E:
    """The exception that the failure is of, which is a `base`, too; else a `base` alone."""
    told: Mapping[str, Any] = failure.raised or {}
    kind: Any = _found(told["class"]) if told else None
    ours: Any = base
    try:
        made = _both(kind, ours) if kind is not None else None
        error: E | None = None if made is None else made.__new__(made, *told.get("args", ()))
    except Exception:  # of any type: a class may refuse to be made so, or to be derived from
        error = None
    if kind is None or error is None:
        return base(failure)
    error.args = tuple(told.get("args", ()))
    vars(error).update(_read(kind, told.get("fields", {})), failure=failure)
    return error


def _read(kind: type[Exception], fields: Mapping[str, Json]) -> Mapping[str, Any]:
    """The fields by the hints of the class, if it has some."""
    from stepwell.runtime.durable.operations import reader_of  # noqa: PLC0415 - it is of functions, which import this

    try:
        hints = typing.get_type_hints(kind)
        return {name: reader_of(hints[name])(value) if name in hints else value for name, value in fields.items()}
    except Exception:  # of any type: a hint may name what only a type checker knows
        return fields


def _found(name: str, *, import_it: bool = True) -> type[Exception] | None:
    module, _, path = name.partition(":")
    try:
        found: Any = import_module(module) if import_it else sys.modules.get(module)
    except Exception:  # of any type: it is users' code, whose class is gone
        return None
    for part in path.split("."):
        found = getattr(found, part, None)
    return found if isinstance(found, type) and issubclass(found, Exception) else None


@lru_cache(maxsize=256)
def _both(kind: Any, base: Any) -> Any:
    """A class of both: the exception's own, first, and ours."""
    own: dict[str, Any] = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
    own |= {name: _own_first(name, base) for name in _OF_FAILURES if not hasattr(kind, name)}
    return type(kind.__name__, (kind, base), own)


def _own_first(name: str, base: type[Exception]) -> property:
    def read(self: Any) -> Any:
        return vars(self)[name] if name in vars(self) else getattr(base, name).fget(self)

    return property(read)
