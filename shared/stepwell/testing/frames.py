"""Keeps Stepwell's own frames out of a test's report: what a wrong call is told is in its message."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import isfunction
from typing import Any, TypeVar

from stepwell.errors import UserError

T = TypeVar("T")


def hidden(cls: type[T]) -> type[T]:
    """Has the public methods of a class raise a UserError at the line that calls them."""
    for name, method in [*vars(cls).items()]:
        if isfunction(method) and not name.startswith("_"):
            setattr(cls, name, _alone(method))
    return cls


def _alone(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def called(*args: Any, **options: Any) -> Any:
        __tracebackhide__ = True
        try:
            return method(*args, **options)
        except UserError as error:
            error.__traceback__ = None
            raise error from error.__cause__

    return called
