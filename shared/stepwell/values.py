"""Frozen dataclasses at a quarter of what the standard library takes to define one.

Python compiles six functions for each of them, in a millisecond, and a worker has three hundred: half of the time in
which it loads. Here only `__init__` is compiled with its class. What compares and hashes is compiled when it is first
called; what refuses to change a field, and what describes the value, is the same function for all classes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, fields
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, TypeVar

__all__ = ["dataclass"]
T = TypeVar("T")

if TYPE_CHECKING:  # what checks types knows this decorator, and it takes the same arguments
    from dataclasses import dataclass
else:

    def dataclass(
        cls: type[T] | None = None, /, *, frozen: bool = False, **options: bool
    ) -> type[T] | Callable[[type[T]], type[T]]:
        """Makes a dataclass, as `dataclasses.dataclass` does. If it is not frozen, that function makes it.

        Frozen ones take `slots`, `eq` and `kw_only`, and inherit from such as are made here.
        """
        make = _frozen if frozen else dataclasses.dataclass
        return (lambda found: make(found, **options)) if cls is None else make(cls, **options)


def _frozen(cls: type[T], *, slots: bool = False, eq: bool = True, kw_only: bool = False) -> type[T]:
    cls.__doc__ = cls.__doc__ or cls.__name__  # or a signature would be looked for, longer than all else takes
    made = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)(cls)
    methods: dict[str, Any] = {"__repr__": _described, "__setattr__": _refused, "__delattr__": _refused}
    if "__init__" not in vars(made):
        methods["__init__"] = _init_of(made)
    if eq:
        methods |= {"__eq__": _equal, "__hash__": _hashed}
    if slots:  # without these a copy would be filled in by assignments
        methods |= {"__getstate__": _state, "__setstate__": _restored}
    for name, method in methods.items():
        if vars(made).get(name) is None:  # a class with an `__eq__` of its own has None as its `__hash__`
            setattr(made, name, method)
    return made


def _compiled(cls: type, name: str, head: str, body: str, known: dict[str, Any]) -> Any:
    exec(f"def {name}({head}):\n{body}", known)  # noqa: S102 - as dataclasses do
    method = known[name]
    method.__qualname__, method.__module__ = f"{cls.__qualname__}.{name}", cls.__module__
    return method


# -- made with the class


class _Made:
    """Stands in a signature for a default that a call makes."""

    def __repr__(self) -> str:
        return "<factory>"


_MADE = _Made()


def _init_of(cls: type) -> Any:
    known: dict[str, Any] = {"_set": object.__setattr__, "_MADE": _MADE}
    found: tuple[Field[Any], ...] = fields(cls)
    lines = [f" _set(self, {one.name!r}, {value})" for one in found if (value := _value_of(one, known))]
    if hasattr(cls, "__post_init__"):
        lines.append(" self.__post_init__()")
    given = [one for one in found if one.init]
    named = [_parameter(one) for one in given if one.kw_only]
    head = ["self", *(_parameter(one) for one in given if not one.kw_only), *(["*", *named] if named else [])]
    method = _compiled(cls, "__init__", ", ".join(head), "\n".join(lines) or " pass", known)
    method.__annotations__ = {**{one.name: one.type for one in given}, "return": None}
    return method


def _value_of(field: Field[Any], known: dict[str, Any]) -> str:
    """Returns the source of what `__init__` sets the field to; "" if it does not set it."""
    name = field.name
    if field.default_factory is not MISSING:
        known[f"_make_{name}"] = field.default_factory
        return f"_make_{name}() if {name} is _MADE else {name}" if field.init else f"_make_{name}()"
    if field.default is not MISSING:
        known[f"_default_{name}"] = field.default
        return name if field.init else f"_default_{name}"
    return name if field.init else ""


def _parameter(field: Field[Any]) -> str:
    if field.default_factory is not MISSING:
        return f"{field.name}=_MADE"
    return field.name if field.default is MISSING else f"{field.name}=_default_{field.name}"


# -- made when they are first called


def _equal(self: Any, other: Any) -> Any:
    cls = _owner(self, "__eq__", _equal)
    mine, others = (_tuple(who, [one.name for one in fields(cls) if one.compare]) for who in ("self", "other"))
    body = f" return {mine} == {others} if other.__class__ is self.__class__ else NotImplemented"
    return _now(cls, "__eq__", "self, other", body)(self, other)


def _hashed(self: Any) -> Any:
    cls = _owner(self, "__hash__", _hashed)
    names = [one.name for one in fields(cls) if (one.compare if one.hash is None else one.hash)]
    return _now(cls, "__hash__", "self", f" return hash({_tuple('self', names)})")(self)


def _owner(self: Any, name: str, method: Any) -> Any:
    """Returns the class that has the method: a class below it may have one of its own, which calls this one."""
    return next(cls for cls in type(self).__mro__ if vars(cls).get(name) is method)


def _now(cls: type, name: str, head: str, body: str) -> Any:
    method = _compiled(cls, name, head, body, {})
    setattr(cls, name, method)
    return method


def _tuple(who: str, names: list[str]) -> str:
    return f"({''.join(f'{who}.{name},' for name in names)})"


# -- the same for all


@recursive_repr("...")
def _described(self: Any) -> str:
    shown = ", ".join(f"{one.name}={getattr(self, one.name)!r}" for one in fields(self) if one.repr)
    return f"{self.__class__.__qualname__}({shown})"


def _refused(self: Any, name: str, *value: Any) -> None:
    """Stands for `__setattr__` and `__delattr__`."""
    what = "assign to" if value else "delete"
    raise FrozenInstanceError(f"cannot {what} field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, one.name) for one in fields(self)]


def _restored(self: Any, state: list[Any]) -> None:
    for one, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, one.name, value)
