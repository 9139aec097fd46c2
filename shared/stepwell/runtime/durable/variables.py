"""Context variables of a durable function that `ctx.run` gives to what it calls, as `asyncio.to_thread` does."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar, copy_context
from functools import partial
from typing import Any, TypeAlias

from stepwell.engine.durable.session import CURRENT

Variables: TypeAlias = tuple[tuple[ContextVar[Any], Any], ...]
_NONE = object()


class Within(partial[object]):
    """A call with these context variables, each time it is called. What it sets is lost, as in a thread."""

    variables: Variables = ()

    def __call__(self) -> object:
        for variable, value in self.variables:
            variable.set(value)
        return super().__call__()


def within(call: partial[object]) -> partial[object]:
    """Returns the call with the context variables that the running function, or its task, has set."""
    before = getattr(asyncio._get_running_loop(), "before", None)  # as they were when the function began
    if before is None:
        return call
    found = copy_context().items()
    own = tuple((one, value) for one, value in found if one is not CURRENT and before.get(one, _NONE) is not value)
    if not own:
        return call
    made = Within(call.func, *call.args, **call.keywords)
    made.variables = own
    return made
