"""Mistakes that `stepwell check` finds in the code, told with its words when the function makes them.

Runs of earlier releases may have made one, and gone on: each is refused only where their log does not hold it.
"""

from __future__ import annotations

import asyncio
import dis
import inspect
from collections.abc import Callable
from types import CodeType
from typing import Any

from stepwell.errors import InvalidInput
from stepwell.runtime.durable.operations import Operation, closed, in_force
from stepwell.runtime.durable.places import caller
from stepwell.runtime.durable.running import FunctionSession
from stepwell.runtime.steps.binding import CONTEXT

# Patches, as a record has them; no names that users can give.
_CONDITION, _CONTEXT, _TWICE = "stepwell:condition", "stepwell:context", "stepwell:twice"
_JUMPS = frozenset({*dis.hasjrel, *dis.hasjabs})  # `await` is one, too
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


def check_registered_once(session: FunctionSession, kind: str, name: str) -> None:
    """Raises InvalidInput for a handler that replaces one of its name before anybody can have called that.

    Nobody can if the function awaited nothing since, and has no `await` that it may have passed over between the two.
    One that replaces it by a choice, such as `if special:`, is meant to.
    """
    place = caller()
    if place is None:
        return
    loop: Any = asyncio.get_running_loop()
    code, last = place
    turn, first, line = session.registered.get((kind, name), (None, code, last))
    session.registered[kind, name] = (loop.since, code, last)
    is_again = turn == loop.since and first is code and line < last
    if is_again and not _jumps_between(code, line, last) and in_force(_TWICE):
        message = f"the {kind} {name!r} of line {line} is replaced by this one, and never called"
        raise InvalidInput(message, code="duplicate_handler", hint="give one of them another name")


def _jumps_between(code: CodeType, line: int, last: int) -> bool:
    """Tells whether the code awaits, or may take one way or another, after this line and up to the last."""
    found = list(dis.get_instructions(code))
    lines = {one.offset: one.positions.lineno for one in found if one.positions is not None}
    jumps = [one for one in found if one.opcode in _JUMPS]
    places = [*(lines.get(one.offset) for one in jumps), *(lines.get(one.argval) for one in jumps)]
    return any(place is not None and line < place <= last for place in places)
