"""What functions give the operations of `ctx`: options that they do not have, and literals that they refuse."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from stepwell.definition.code.context_names import may_be_workflows
from stepwell.definition.code.literals import NO_LITERAL, literal
from stepwell.definition.code.modules import Def, Function
from stepwell.definition.code.signatures import CONTEXT
from stepwell.definition.context_options import MAP_OPTIONS, OPTIONS, PARAMETERS
from stepwell.definition.context_values import (
    check_at_once,
    check_name,
    check_need,
    check_tolerate,
    condition,
    late_heartbeat,
    policy_of,
    wrong_need,
    wrong_step,
    wrong_tolerate,
)
from stepwell.definition.durations import parse_duration, show_duration
from stepwell.definition.text import closest, counted
from stepwell.errors import InvalidInput, UserError
from stepwell.limits import YEAR_MS

Wrong = tuple[ast.AST, str, str, str]  # a place, and the code, message and hint of its problem
Called = Callable[[ast.expr], Def | ast.Lambda | None]

_TO_A_FUNCTION = frozenset({"step", "child"})  # another name is that of a parameter, and checked with those
_MUST_BE_NAMED = frozenset({"callback", "transact"})  # others take an empty name for none
_OF_ANY_NUMBER = frozenset({"all", "child", "first", "lock", "run", "step"})
_UNTIL = "give the datetime itself, as in ctx.sleep(when)"
_WITHOUT_MAXIMUM = frozenset({"until", "step", "run"})  # of steps, `code_limits` tells


def wrong_calls(function: Function, called: Called) -> Iterator[Wrong]:
    """Yields what the function calls `ctx` with in vain, with the problem. `called`: returns the function of a name."""
    if not may_be_workflows(function):
        return
    for node in ast.walk(function.node):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(name), attr=operation)) if name == CONTEXT:
                if operation in OPTIONS:
                    yield from _unknown(node, operation, called)
                    yield from _miscounted(node, operation)
                    yield from _refused(node, operation)


def _unknown(call: ast.Call, operation: str, called: Called) -> Iterator[Wrong]:
    options = MAP_OPTIONS if operation == "map" else OPTIONS[operation]
    own = {*options, *PARAMETERS.get(operation, ())}
    target = call.args[0] if call.args else None
    if operation in _TO_A_FUNCTION and not _is_text(target):
        return
    if operation in {"run", "map"}:
        function = None if target is None else called(target)
        if function is None or function.args.kwarg is not None:
            return
        own |= {one.arg for one in (*function.args.args, *function.args.kwonlyargs)}
    for given in call.keywords:
        if given.arg is not None and given.arg not in own:
            hint = _UNTIL if (operation, given.arg) == ("sleep", "until") else closest(given.arg, options)
            yield given, "bad_arguments", f"ctx.{operation} has no option {given.arg!r}", hint


def _miscounted(call: ast.Call, operation: str) -> Iterator[Wrong]:
    """What is given by position that goes by name alone, and what an operation cannot do without."""
    names, options = PARAMETERS[operation], MAP_OPTIONS if operation == "map" else OPTIONS[operation]
    given = [one.arg for one in call.keywords]
    if None in given or any(isinstance(one, ast.Starred) for one in call.args):
        return  # what these hold is known only when it runs
    hint = f"it is ctx.{operation}({', '.join((*names, '*', *options) if options else names)})"
    if len(call.args) > len(names) and operation not in _OF_ANY_NUMBER:
        message = f"ctx.{operation} takes {counted(len(names), 'argument')} by position, not {len(call.args)}"
        yield call, "bad_arguments", message, hint
    needed = names[: 2 if operation == "map" else 1] if operation != "approval" else ()
    lacking = [one for one in needed[len(call.args) :] if one not in given]
    if lacking and all(one in options or one in names for one in given):
        yield call, "bad_arguments", f"ctx.{operation} needs {', '.join(map(repr, lacking))}", hint


def _refused(call: ast.Call, operation: str) -> Iterator[Wrong]:
    options = MAP_OPTIONS if operation == "map" else OPTIONS[operation]
    given = {one.arg: one.value for one in call.keywords if one.arg in options}
    if operation in {"sleep", "timer"} and call.args:
        given["timeout"] = call.args[0]
    values = {name: value for name, node in given.items() if (value := literal(node)) is not NO_LITERAL}
    for name, value in values.items():
        is_used = name in _CHECKS and not _is_unused(name, value, operation, given)
        if is_used and (error := _error(_CHECKS[name], value)):
            yield given[name], *error
    if "timeout" in values and operation not in _WITHOUT_MAXIMUM and (_ms(values, "timeout") or 0) > YEAR_MS:
        message = f"{values['timeout']} is over the maximum of ctx.{operation}"
        yield given["timeout"], "timeout_too_long", message, f"at most {show_duration(YEAR_MS)}"
    if operation in {"step", "run", "map"} and (wrong := wrong_step(None, None, _ms(values, "timeout"))):
        yield given["timeout"], wrong.code, wrong.message, wrong.hint or ""
    if operation == "callback" and (late := late_heartbeat(_ms(values, "heartbeat"), _ms(values, "timeout"))):
        yield given["heartbeat"], late.code, late.message, late.hint or ""
    if operation == "approval" and (few := _too_few(values)):
        yield given["need"], "bad_value", few, "name at least as many as must agree"


def _is_unused(name: str, value: Any, operation: str, given: Collection[str]) -> bool:
    """Tells whether a run would not look at the value: None, an empty name for the function's, what is left out."""
    if name == "name":
        return operation == "start" or ((value is None or value == "") and operation not in _MUST_BE_NAMED)
    return value is None or (name == "tolerate" and "return_exceptions" in given)


def _once(value: Any) -> None:
    if error := wrong_step(value, None):
        raise error


def _pool(value: Any) -> None:
    if error := wrong_step(None, value):
        raise error


def _need(value: Any) -> None:
    check_need(value)
    if error := wrong_need(value):
        raise error


def _tolerate(value: Any) -> None:
    if error := wrong_tolerate(check_tolerate(value)):
        raise error


def _approvers(value: Any) -> None:
    if not isinstance(value, list | tuple) or not all(isinstance(name, str) and name for name in value):
        raise InvalidInput("approvers is a list of names", code="bad_value", hint=f"approvers=[{value!r:.80}]")


_CHECKS: Mapping[str, Callable[[Any], object]] = {
    "approvers": _approvers, "at_most_once": _once, "heartbeat": parse_duration, "match": condition,
    "max_concurrency": check_at_once, "name": check_name, "need": _need, "pool": _pool, "retry": policy_of,
    "timeout": parse_duration, "tolerate": _tolerate,
}  # fmt: skip


def _error(check: Callable[[Any], object], value: Any) -> tuple[str, str, str] | None:
    try:
        check(value)
    except UserError as error:
        return error.code, error.message, error.hint or ""
    return None


def _too_few(values: Mapping[str, Any]) -> str:
    need, of = values.get("need"), values.get("approvers")
    if not isinstance(need, int) or (need >= 1 and (not isinstance(of, list | tuple) or need <= len({*of}))):
        return ""
    who = "approvers" if not isinstance(of, list | tuple) else f"{len(of)} approvers"
    return f"{need} of {who} cannot be asked for"


def _ms(values: Mapping[str, Any], name: str) -> int | None:
    try:
        return parse_duration(values[name]) if values.get(name) is not None else None
    except UserError:  # it has a problem of its own
        return None


def _is_text(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)
