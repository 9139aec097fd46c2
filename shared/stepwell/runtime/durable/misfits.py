"""Tells of calls that do not fit a method of `ctx`: the option that it does not have, and what it is called with."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from stepwell.definition.text import closest
from stepwell.errors import InvalidInput

P = ParamSpec("P")
T = TypeVar("T")
Class = TypeVar("Class", bound=type)


def telling(owner: Class) -> Class:
    """Has the methods of a class raise InvalidInput for a call that does not fit them, instead of TypeError."""
    for name, method in list(vars(owner).items()):
        if inspect.isfunction(method) and not name.startswith("_"):
            setattr(owner, name, _told(method))
    return owner


def _told(method: Callable[P, T]) -> Callable[P, T]:
    @wraps(method)
    def called(*args: P.args, **named: P.kwargs) -> T:
        try:
            return method(*args, **named)
        except TypeError as error:
            if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                raise  # within the method
            raise _misfit(method, args, named) from error

    return called


def _misfit(method: Callable[..., Any], args: Sequence[object], named: Mapping[str, object]) -> InvalidInput:
    """Returns the error of a call, by the first option that the method does not have."""
    signature = inspect.signature(method)
    name, (_, *own) = f"ctx.{method.__name__}", signature.parameters.values()
    options = [one.name for one in own if one.kind is one.KEYWORD_ONLY]
    known = {one.name for one in own}
    if unknown := next((one for one in named if one not in known), None):
        return InvalidInput(f"{name} has no option {unknown!r}", code="bad_value", hint=closest(unknown, options))
    try:
        signature.bind(*args, **named)
    except TypeError as error:
        shown = [one.replace(default=one.empty, annotation=one.empty) for one in own]
        hint = f"it is {name}{inspect.Signature(shown)}"
        return InvalidInput(f"{name}: {error}", code="bad_value", hint=hint)
    return InvalidInput(f"{name} cannot be called so", code="bad_value")
