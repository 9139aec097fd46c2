"""A step's exception as data, from which a durable function rebuilds it."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from typing import Any

from stepwell.definition.graph import Json
from stepwell.errors import StepwellError
from stepwell.runtime.steps.binding import BadOutputError, to_json
from stepwell.runtime.steps.secrets import READ, without_credentials
from stepwell.runtime.steps.threads import AttemptTimeoutError

_CHARACTERS = 4_000  # limit of the arguments and fields; a larger exception is caught as StepFailed alone
# These cannot be raised into a coroutine, or are not the user's own.
_NOT_THROWN = (StopIteration, StopAsyncIteration, StepwellError, BadOutputError, AttemptTimeoutError)


def described(error: BaseException) -> Json:
    """Returns the data to rebuild this exception; None if it cannot be stored, or its class not found."""
    kind = type(error)
    name = f"{kind.__module__}:{kind.__qualname__}"
    if (
        not isinstance(error, Exception)
        or isinstance(error, _NOT_THROWN)
        or class_named(name, import_it=False) is not kind
    ):
        return None
    try:
        args, fields = to_json(list(error.args)), to_json(vars(error))
    except Exception:  # BadOutputError, and whatever users' attributes raise when they are read
        return None
    made = {"class": name, **({"args": args} if args else {}), **({"fields": fields} if fields else {})}
    return without_credentials(made, tuple(READ)) if len(json.dumps(made)) <= _CHARACTERS else None


def class_named(name: str, *, import_it: bool = True) -> type[Exception] | None:
    """Returns the exception class of this `module:qualname`; None if there is none."""
    module, _, path = name.partition(":")
    try:
        found: Any = import_module(module) if import_it else sys.modules.get(module)
    except Exception:  # users' code can raise anything; the class is gone
        return None
    for part in path.split("."):
        found = getattr(found, part, None)
    return found if isinstance(found, type) and issubclass(found, Exception) else None
