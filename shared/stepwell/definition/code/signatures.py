"""Whether what a step is called with fits its function, as far as both are written down."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from stepwell.definition.code.modules import Def
from stepwell.definition.text import counted

CONTEXT = "ctx"  # the parameter that a step's or workflow's context goes to
_PLAIN = frozenset({"int", "str", "float", "bool", "bytes", "Decimal", "datetime", "date", "UUID", "list", "tuple"})


def misfit(function: Def, positional: int, named: Collection[str]) -> str:
    """Why a call with so many arguments, and these by name, does not fit. Empty: it fits."""
    names, required = _parameters(function)
    if positional > len(names) and function.args.vararg is None:
        return f"{function.name} takes {counted(len(names), 'argument')}, not {positional}"
    given = [*names[:positional], *named]
    if twice := next((name for name in named if name in names[:positional]), None):
        return f"{function.name} gets {twice!r} twice"
    keywords = {*names, *(one.arg for one in function.args.kwonlyargs)}
    if function.args.kwarg is None and (unknown := next((name for name in named if name not in keywords), None)):
        return f"{function.name} has no parameter {unknown!r}"
    missing = [name for name in required if name not in given]
    return f"{function.name} needs {', '.join(map(repr, missing))}" if missing else ""


def missing_input(function: Def, keys: Collection[str]) -> str:
    """Why an input with these names is not enough. A sole parameter that is a model or a dict gets all of it."""
    names, required = _parameters(function)
    if len(names) == 1 and not function.args.kwarg and _takes_whole(function, names[0]):
        return ""
    missing = [name for name in required if name not in keys]
    return f"{function.name} needs {', '.join(map(repr, missing))}" if missing else ""


def _parameters(function: Def) -> tuple[list[str], list[str]]:
    """The names that arguments by position fill, and those that have no default; the context is not among them."""
    args = function.args
    plain = [one.arg for one in (*args.posonlyargs, *args.args)]
    required = plain[: len(plain) - len(args.defaults)]
    required += [one.arg for one, default in zip(args.kwonlyargs, args.kw_defaults, strict=True) if default is None]
    return [name for name in plain if name != CONTEXT], [name for name in required if name != CONTEXT]


def _takes_whole(function: Def, name: str) -> bool:
    """A type that is not known here may be a model."""
    hint = next((one.annotation for one in _all(function) if one.arg == name), None)
    if hint is None:
        return False
    base = hint.value if isinstance(hint, ast.Subscript) else hint
    return not (isinstance(base, ast.Name) and base.id in _PLAIN)


def _all(function: Def) -> Iterator[ast.arg]:
    yield from (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
