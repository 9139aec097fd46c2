"""Keeps Stepwell's own frames out of a test's report: what a wrong call is told is in its message."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import wraps
from inspect import isfunction
from typing import Any, TypeVar

from stepwell.errors import UserError
from stepwell.local.run_logs import users_trace

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


class UsersFrames(logging.Filter):
    """Begins a logged traceback with the code under test. What a mock raises has none."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.exc_info:
            kind, error, trace = record.exc_info
            if kind is not None and error is not None:
                record.exc_info = kind, error, users_trace(trace)
        return True
