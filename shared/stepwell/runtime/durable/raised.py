"""Rebuilds a step's exception for its function, as its own class if that can be imported and built."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from functools import lru_cache
from types import WrapperDescriptorType
from typing import Any, TypeVar

from stepwell.definition.graph import Json
from stepwell.engine.records import Failure
from stepwell.runtime.durable.operations import reader_of
from stepwell.runtime.steps.raised import class_named

E = TypeVar("E", bound=Exception)

_OF_FAILURES = ("type", "category", "data")  # properties of StepFailed; the exception's own fields of these names win


def as_itself(failure: Failure, base: type[E]) -> E:
    """Returns the failure as its own exception class and a `base`; as a `base` alone if that class fails."""
    raised: Mapping[str, Any] = failure.raised or {}
    kind: Any = class_named(raised["class"]) if raised else None
    ours: Any = base
    try:
        made = _both(kind, ours) if kind is not None else None
        error: E | None = None if made is None else made.__new__(made, *raised.get("args", ()))
    except Exception:  # a class may refuse to be built so, or to be subclassed
        error = None
    if kind is None or error is None:
        return base(failure)
    error.args = tuple(raised.get("args", ()))
    vars(error).update(_read(kind, raised.get("fields", {})), failure=failure)
    return error


def _read(kind: type[Exception], fields: Mapping[str, Json]) -> Mapping[str, Any]:
    """Returns the fields, converted by the type hints of the class if they can be resolved."""
    try:
        hints = typing.get_type_hints(kind)
        return {name: reader_of(hints[name])(value) if name in hints else value for name, value in fields.items()}
    except Exception:  # a hint may name what only a type checker knows
        return fields


@lru_cache(maxsize=256)
def _both(kind: Any, base: Any) -> Any:
    """Returns a subclass of both: the exception's own class first, then `base`."""
    own: dict[str, Any] = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
    own |= {name: _own_first(name, base) for name in _OF_FAILURES if not hasattr(kind, name)}
    if isinstance(kind.__str__, WrapperDescriptorType) and kind.__str__ is not BaseException.__str__:
        own["__str__"] = _text  # it reads what Python's own `__init__` keeps beside the arguments, as of an OSError
    return type(kind.__name__, (kind, base), own)


def _text(self: Any) -> str:
    return self.failure.message if self.args else ""


def _own_first(name: str, base: type[Exception]) -> property:
    def read(self: Any) -> Any:
        return vars(self)[name] if name in vars(self) else getattr(base, name).fget(self)

    return property(read)
