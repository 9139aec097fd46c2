"""Mistakes that `stepwell check` finds in the code, told with its words when the function makes them.

Runs of earlier releases may have made one, and gone on: each is refused only where their log does not hold it.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from types import CodeType

from stepwell.errors import InvalidInput
from stepwell.runtime.durable.operations import Operation, closed, in_force
from stepwell.runtime.steps.binding import CONTEXT

# Patches, as a record has them; no names that users can give.
_CONDITION, _CONTEXT = "stepwell:condition", "stepwell:context"
_CHOSEN = "such as lambda: len(items) > 1"


def condition_of(given: Callable[[], object]) -> Callable[[], object]:
    """Returns the condition of `until`. It raises InvalidInput, now or later, if it gives what nobody awaits."""
    if inspect.iscoroutinefunction(given) and in_force(_CONDITION):
        name = getattr(given, "__name__", "given")
        message = f"the condition {name} is an async function: it is never awaited, and always holds"
        raise InvalidInput(message, code="bad_condition", hint=f"give a plain function, {_CHOSEN}")

    def condition() -> object:
        made = given()
        if asyncio.iscoroutine(made) and in_force(_CONDITION):
            what = f"the operation {made.asked}" if isinstance(made, Operation) else f"{closed(made)}()"
            message = f"the condition gives {what}, which nobody awaits: it always holds"
            hint = f"look at variables alone, {_CHOSEN}; what is awaited sets them"
            raise InvalidInput(message, code="bad_condition", hint=hint)
        return made

    return condition


def assigned(name: str, *, is_known: bool) -> InvalidInput:
    """Returns the error of an assignment to an attribute of `ctx`, or of its deletion."""
    if not is_known:
        hint = f'keep the value in a variable, or in ctx.state["{name}"]'
        return InvalidInput(f"ctx has no {name!r}", code="unknown_operation", hint=hint)
    hint = (
        'write ctx.state["name"] = value; ctx.state.clear() empties it'
        if name == "state"
        else 'keep the value in a variable, or show it in ctx.state["name"]'
    )
    return InvalidInput(f"ctx.{name} cannot be given another value", code="bad_assignment", hint=hint)


def check_takes_no_context(name: str, handler: Callable[..., object]) -> None:
    """Raises InvalidInput for an update's handler with a parameter `ctx`."""
    code = getattr(handler, "__code__", None)
    if not isinstance(code, CodeType) or CONTEXT not in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
        return
    if in_force(_CONTEXT):
        hint = "leave it out: the handler has the ctx of the function around it"
        message = f"the handler of update {name} has a parameter ctx, which is None"
        raise InvalidInput(message, code="bad_update_handler", hint=hint)
