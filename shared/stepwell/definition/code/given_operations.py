"""What is given to `ctx.all`, `first`, `start` and `map`, and to asyncio, in place of operations and seconds."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from stepwell.definition.code.context_calls import Called, Wrong
from stepwell.definition.code.context_forms import AWAITED, SEVERAL, operation_of
from stepwell.definition.code.context_names import may_be_workflows
from stepwell.definition.code.modules import Function
from stepwell.definition.code.unawaited import kept
from stepwell.definition.durations import parse_duration
from stepwell.errors import UserError

_OF_OPERATIONS = frozenset({"all", "first", "start"})
_GATHER = "asyncio.gather"
_OF_ASYNCIO = frozenset({_GATHER, "asyncio.create_task", "asyncio.ensure_future"})
_SINGLE = frozenset({"start", ""})  # and those of asyncio, but for `gather`
_SECONDS = {"asyncio.sleep": 0, "asyncio.timeout": 0, "asyncio.wait_for": 1}  # the place of their seconds
_NAMES = frozenset({"delay", "timeout"})
_ZONE = 7  # the place of a datetime's time zone


def wrong_operands(function: Function, called: Called, meaning: Callable[[ast.expr], str]) -> Iterator[Wrong]:
    """Yields what cannot be given there. `called`: the function of a name; `meaning`: the full name of what it is."""
    if not may_be_workflows(function):
        return
    nodes = list(ast.walk(function.node))
    several = {name for name, made in kept(nodes) if isinstance(made, SEVERAL)}
    for node in nodes:
        if isinstance(node, ast.Call):
            operation, full = operation_of(node), meaning(node.func)
            what = f"ctx.{operation}" if operation else full
            if operation in _OF_OPERATIONS or full in _OF_ASYNCIO:
                yield from _awaited(node, what)
                yield from _functions(node, what, called)
                if operation not in _SINGLE or full == _GATHER:
                    yield from _collected(node, what, several, is_written=full == _GATHER)
            elif operation == "map" and node.args and isinstance(node.args[0], (*SEVERAL, ast.Dict)):
                yield node.args[0], "bad_value", "ctx.map takes the function first", "ctx.map(function, items)"
            elif operation in {"sleep", "timer"} and node.args and _has_no_zone(node.args[0], meaning):
                message = f"the time {ast.unparse(node.args[0])[:40]} has no time zone"
                yield node.args[0], "bad_value", message, 'give it one: tzinfo=UTC, or tzinfo=ZoneInfo("Europe/Madrid")'
            elif full in _SECONDS:
                yield from _text(node, full)


def _awaited(call: ast.Call, what: str) -> Iterator[Wrong]:
    for one in call.args:
        if isinstance(one, ast.Await) and (name := operation_of(one.value)) in AWAITED:
            message = f"ctx.{name}(…) is awaited before {what} gets it, and its result cannot be awaited"
            yield one, "bad_await", message, f"leave out its own `await`: {what}(ctx.{name}(…), …)"


def _functions(call: ast.Call, what: str, called: Called) -> Iterator[Wrong]:
    for one in call.args:
        if isinstance(one, ast.Lambda) or (isinstance(one, ast.Name) and called(one) is not None):
            name = "a lambda" if isinstance(one, ast.Lambda) else f"the function {one.id}"
            message = f"{what} takes operations and coroutines, not {name}"
            yield one, "bad_value", message, f"call it, or give an operation: {what}(ctx.step(function, …))"


def _collected(call: ast.Call, what: str, several: set[str], *, is_written: bool) -> Iterator[Wrong]:
    """One collection in place of its parts. `is_written`: told also where it is written out."""
    match call.args:
        case [ast.Name(name) as given] if name in several:
            hint = f"write an asterisk: {what}(*{name})"
        case [given] if is_written and isinstance(given, SEVERAL):
            hint = f"write an asterisk: {what}(*[…])"
        case _:
            return
    yield given, "bad_value", f"{what} takes operations, not one collection of them", hint


def _has_no_zone(given: ast.expr, meaning: Callable[[ast.expr], str]) -> bool:
    if not isinstance(given, ast.Call) or meaning(given.func) != "datetime.datetime":
        return False
    is_known = not any(isinstance(one, ast.Starred) for one in given.args)
    return is_known and len(given.args) <= _ZONE and not any(one.arg in {"tzinfo", None} for one in given.keywords)


def _text(call: ast.Call, full: str) -> Iterator[Wrong]:
    """`asyncio.timeout("1h")`."""
    named = (one.value for one in call.keywords if one.arg in _NAMES)
    given = next(named, call.args[_SECONDS[full]] if len(call.args) > _SECONDS[full] else None)
    if isinstance(given, ast.Constant) and isinstance(given.value, str):
        try:
            hint = f"write {parse_duration(given.value) / 1_000:g}"
        except UserError:
            hint = "write a number of seconds"
        yield given, "bad_duration", f"{full} takes seconds, not {given.value!r}", hint
