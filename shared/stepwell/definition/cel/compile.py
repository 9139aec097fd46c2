"""Compiles the source of a CEL expression, by its shape, to code and the names that it reads; words its errors.

`cel.parse` parses. Where cel-expr-python is installed, which is wherever definitions are written, it checks syntax and
types first, and says what is wrong; it is imported when the first expression is compiled. The deployed functions do
without: it would be half of their package.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from stepwell.definition.patterns import lazy
from stepwell.definition.text import did_you_mean, one_line
from stepwell.errors import ExpressionError
from stepwell.values import dataclass

if TYPE_CHECKING:
    from stepwell.definition.cel.ast import Given, Literal, Tree
    from stepwell.definition.cel.eval import Code

SHAPES = 512  # compiled ones that are kept
_UNDECLARED = lazy(r"undeclared reference to '([A-Za-z_]\w*)")
_SPELLINGS = {"True": "true", "False": "false", "None": "null", "nil": "null", "undefined": "null"}
STRINGS = lazy(r"'''.*?'''|\"\"\".*?\"\"\"|[rR]'[^']*'|[rR]\"[^\"]*\"|'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"", re.S)


@lru_cache(maxsize=4)
def library(names: tuple[str, ...]) -> Any:
    """Returns the library's environment with these variables, None where it is not installed."""
    try:
        from cel_expr_python import cel  # type: ignore[import-untyped]  # noqa: PLC0415 - 20 ms
        from cel_expr_python.ext import ext_math, ext_strings  # type: ignore[import-untyped]  # noqa: PLC0415 - as above
    except ImportError:
        return None
    extensions = [ext_strings.ExtStrings(), ext_math.ExtMath()]
    return cel.NewEnv(variables=dict.fromkeys(names, cel.Type.DYN), extensions=extensions)


@dataclass(frozen=True, slots=True)
class Compiled:
    """What the expressions of one shape share: code, names, and the members that they read of some of these.

    `of_steps` has the members of the members of `steps`.
    """

    code: Code
    names: frozenset[str]
    state: frozenset[str | Given]
    steps: frozenset[str | Given]
    run: frozenset[str | Given]
    of_steps: frozenset[tuple[str | Given, str | Given]]


def compile_source(source: str, names: tuple[str, ...]) -> tuple[Compiled, Sequence[Literal]]:
    """Compiles a source by its shape, and returns its own literals and fields too. Raises ExpressionError."""
    from stepwell.definition.cel.shapes import shape_of  # noqa: PLC0415 - see above

    shape, given = shape_of(source)
    try:
        return _compiled(shape, names, bool(given)), given
    except Exception:  # the library raises RuntimeError, TypeError and UnicodeError for bad sources
        return _compile_alone(source, names), ()


def _compile_alone(source: str, names: tuple[str, ...]) -> Compiled:
    """Compiles the source itself, whose errors have its own words. Raises ExpressionError."""
    try:
        return _compiled(source, names, False)
    except ExpressionError:
        raise
    except Exception as error:  # as above
        raise _compile_error(source, str(error), names) from None


@lru_cache(maxsize=SHAPES)
def _compiled(source: str, names: tuple[str, ...], is_shape: bool) -> Compiled:
    from stepwell.definition.cel.ast import free_names, inner_members_of, members_of  # noqa: PLC0415 - see above
    from stepwell.definition.cel.eval import compile_tree  # noqa: PLC0415 - see above
    from stepwell.definition.cel.shapes import with_places  # noqa: PLC0415 - see above

    tree = with_places(_parse(source, names)) if is_shape else _parse(source, names)
    state, steps, run = (members_of(tree, name) for name in ("state", "steps", "run"))
    read = free_names(tree) & frozenset(names)
    return Compiled(compile_tree(tree, names), read, state, steps, run, inner_members_of(tree, "steps"))


def _parse(source: str, names: tuple[str, ...]) -> Tree:
    from stepwell.definition.cel.ast import NotCel, free_names  # noqa: PLC0415 - see above
    from stepwell.definition.cel.parse import is_type, parse  # noqa: PLC0415 - see above

    if (checker := library(names)) is not None:
        checker.compile(source)
    tree = parse(source)
    for name in free_names(tree) - {*names}:
        if not is_type(name):
            raise NotCel(f"undeclared reference to '{name}' (in container '')")
    return tree


def bare(source: str) -> str:
    """Replaces the strings of a source by empty ones."""
    return STRINGS.sub("''", source)


def _compile_error(source: str, message: str, names: tuple[str, ...]) -> ExpressionError:
    if (match := _UNDECLARED.search(message)) and not re.search(rf"\b{match[1]}\s*\(", source):
        return _unknown_name(match[1], names)
    if "recursion" in message:
        return ExpressionError(f"{one_line(source)} is nested too deeply", hint="split it, or compute it in a step")
    first = re.sub(r"^<input>:\d+:", "column ", library_message(message)).replace("Syntax error: ", "")
    first = re.sub(r" expecting \{.*", ", which is not allowed here", first).replace("'<EOF>'", "the end")
    return ExpressionError(f"{one_line(source)} is not a CEL expression: {first}", hint=_syntax_hint(source, message))


def _unknown_name(name: str, names: tuple[str, ...]) -> ExpressionError:
    if name in _SPELLINGS:
        return ExpressionError(f"unknown name `{name}`", code="unknown_name", hint=f"CEL writes {_SPELLINGS[name]}")
    known = f"the names are {', '.join(names)}"
    other = f"write input.{name} for a name of the input, state.{name} for a variable; {known}"
    hint = did_you_mean(name, names) or (other if {"input", "state"} <= {*names} else known)
    return ExpressionError(f"unknown name `{name}`", code="unknown_name", hint=hint)


def _syntax_hint(source: str, message: str) -> str:
    words = bare(source)
    if "{{" in words:
        return "leave out the inner {{ }}: the whole is one expression"
    if re.search(r"(?<![=!<>])=(?!=)", words):
        return "compare with =="
    if re.search(r"\b(and|or|not)\b", words):
        return "CEL writes && for and, || for or, ! for not"
    if "no matching overload" in message:
        if "int" in message and "double" in message:
            return "CEL does not mix int and double literals: write both as 1.0, or convert with double(x)"
        return "the types do not fit: string(x), int(x) and double(x) convert"
    if found := re.search(r"type 'type\((\w+)[^']*' cannot be the operand of a select", message):
        name = found[1]
        return f"`{name}` is a type of CEL: write state.{name} for what a node of this name wrote, or input.{name}"
    if "undeclared reference" in message:
        return "that function does not exist in CEL"
    return "CEL reads like: result.amount > 100 && state.kind == 'order'"


def library_message(text: str) -> str:
    """Strips status names and the source excerpt from the library's message."""
    first = text.split("\n", 1)[0]
    for prefix in ("INVALID_ARGUMENT: ", "UNKNOWN: ", "NOT_FOUND: ", "OUT_OF_RANGE: ", "CANCELLED: ", "INTERNAL: "):
        first = first.removeprefix(prefix)
    return first.removeprefix("ERROR: ").removesuffix(" [INVALID_ARGUMENT]").removesuffix(" [CANCELLED]")
