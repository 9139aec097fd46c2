"""What `ctx` has, used as what it is not: `ctx.state = …`, `ctx.state.total`, `ctx.now.isoformat()`, `ctx.run_id()`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from stepwell.definition.code.context_calls import Wrong
from stepwell.definition.code.context_names import CONTEXT_NAMES, may_be_workflows
from stepwell.definition.code.modules import Function
from stepwell.definition.code.signatures import CONTEXT
from stepwell.definition.code.unawaited import values_in

_VALUES = frozenset({"run_id", "state", "workflow"})
_WITHOUT_ARGUMENTS = frozenset({"now", "random", "uuid"})
_METHODS = CONTEXT_NAMES - _VALUES - {"log"}
_OF_STATE = frozenset(dir(dict))
_OF_FUNCTIONS = frozenset(dir(lambda: None))


def wrong_attributes(function: Function) -> Iterator[Wrong]:
    """Yields each use of an attribute of `ctx` that raises when it runs, or that is always true."""
    if not may_be_workflows(function):
        return
    for node in ast.walk(function.node):
        match node:
            case ast.Attribute(value=value, attr=attr) if _part(value) == "state" and attr not in _OF_STATE:
                hint = f'write ctx.state["{attr}"]'
                yield node, "unknown_operation", f"ctx.state is a dict, and has no attribute {attr!r}", hint
            case ast.Attribute(value=value, attr=attr) if _part(value) in _METHODS and attr not in _OF_FUNCTIONS:
                message = f"ctx.{_part(value)} is a function, and is not called"
                yield node, "never_called", message, _instead(_part(value), attr)
            case ast.Attribute(attr=attr, ctx=ast.Store() | ast.Del()) if _part(node) in CONTEXT_NAMES:
                hint = (
                    'write ctx.state["name"] = value; ctx.state.clear() empties it'
                    if attr == "state"
                    else 'keep the value in a variable, or show it in ctx.state["name"]'
                )
                yield node, "bad_assignment", f"ctx.{attr} cannot be given another value", hint
            case ast.Call(func=called) if (name := _part(called)) in _VALUES:
                yield node, "bad_value", f"ctx.{name} is a value, not a function", f"leave out the brackets: ctx.{name}"
        for value in () if isinstance(node, ast.Attribute) else values_in(node):
            if (name := _part(value)) in _METHODS:
                yield value, "never_called", f"ctx.{name} is a function, and is not called", f"call it: {_call(name)}"


def _part(node: ast.expr) -> str:
    """The name of what an expression reads of `ctx` itself; "" for any other."""
    match node:
        case ast.Attribute(value=ast.Name(name), attr=attr) if name == CONTEXT:
            return attr
    return ""


def _instead(name: str, attr: str) -> str:
    """What to write in place of `ctx.random.choice`, `ctx.now.isoformat` and the like."""
    if name == "random":
        return f"ctx.random() is a number from 0 to 1: random.Random(ctx.random()).{attr}(…)"
    return f"call it: {_call(name)}.{attr}"


def _call(name: str) -> str:
    return f"ctx.{name}()" if name in _WITHOUT_ARGUMENTS else f"ctx.{name}(…)"
