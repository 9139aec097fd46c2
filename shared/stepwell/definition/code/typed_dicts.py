"""Checks that no type that Stepwell reads is a TypedDict of `typing`, which pydantic reads from Python 3.12 on.

def charge(order: Order)                      a parameter of a step or a workflow, or of a definition's target
await ctx.step(charge, …)   -> Receipt        what a function gets back, of ctx.step, ctx.map and ctx.child
await ctx.event("paid", type=Paid)            what it says that it gets
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from stepwell.definition.code.full_names import FullNames
from stepwell.definition.code.modules import Code, Function, Module
from stepwell.definition.code.signatures import CONTEXT
from stepwell.errors import Problem

FROM_PYTHON = (3, 12)
_TYPED_DICT = "typing.TypedDict"
_HINT = "from typing_extensions import TypedDict"
_CALLS = frozenset({"step", "map", "child"})
_READS = frozenset({"event", "child", "callback"})


def typed_dicts_of(code: Code, targets: Collection[str], python: tuple[int, ...]) -> list[Problem]:
    """Returns a problem for each such type. `targets`: the definitions' functions, as `module.name`."""
    if python >= FROM_PYTHON:
        return []
    types, found = _Types(FullNames(code)), dict[tuple[str, int, int], Problem]()
    for what, module, hint in _read(types.names, code, targets):
        if name := types.typed_dict_in(module, hint):
            place = (module.file, hint.lineno, hint.col_offset + 1)
            message = f"{what} has {name}, a TypedDict of `typing`, which pydantic cannot read on Python 3.11"
            found.setdefault(place, Problem("step_signature", message, hint=_HINT, file=place[0], line=place[1],
                                            column=place[2]))  # fmt: skip
    return list(found.values())


def _read(names: FullNames, code: Code, targets: Collection[str]) -> Iterator[tuple[str, Module, ast.expr]]:
    """Yields each type that is read, with what has it and its module."""
    for function in code.functions():
        if function.mark or f"{function.module.name}.{function.name}" in targets:
            yield from _of_parameters(function)
        for call in ast.walk(function.node):
            match call:
                case ast.Call(func=ast.Attribute(value=ast.Name(name), attr=operation), args=given) if name == CONTEXT:
                    called = names.function(names.of(function.module, given[0])) if given else None
                    if operation in _CALLS and called is not None:
                        yield from _of_parameters(called)
                        yield from _of_result(called)
                    yield from (
                        (f"ctx.{operation}", function.module, one.value)
                        for one in call.keywords
                        if one.arg == "type" and operation in _READS
                    )


def _of_parameters(function: Function) -> Iterator[tuple[str, Module, ast.expr]]:
    arguments = function.node.args
    for one in (*arguments.args, *arguments.kwonlyargs):
        if one.arg != CONTEXT and one.annotation is not None:
            yield f"the parameter {one.arg} of {function.name}", function.module, one.annotation


def _of_result(function: Function) -> Iterator[tuple[str, Module, ast.expr]]:
    if function.node.returns is not None:
        yield f"the result of {function.name}", function.module, function.node.returns


class _Types:
    """What the types of a folder's code are made of."""

    def __init__(self, names: FullNames) -> None:
        self.names = names

    def typed_dict_in(self, module: Module, hint: ast.expr) -> str:
        """Returns the name of a TypedDict of `typing` that the type is, or has in it; "" if there is none."""
        return self._in(module, hint, set())

    def _in(self, module: Module, hint: ast.expr, seen: set[str]) -> str:
        """`seen`: classes and aliases that were looked into, which may refer to each other."""
        return next((found for one in _named_in(hint) if (found := self._of_name(module, one, seen))), "")

    def _of_name(self, module: Module, node: ast.expr, seen: set[str]) -> str:
        full = self.names.of(module, node)
        if (owner := self.names.owner(full)) is not None and full not in seen:
            seen.add(full)
            return self._of_class(*owner, seen)
        value = self.names.value(module, node) if owner is None else None
        if value is None or (place := f"{value[0].name}:{value[1].lineno}:{value[1].col_offset}") in seen:
            return ""
        seen.add(place)
        home, made = value
        if isinstance(made, ast.Call):
            return ast.unparse(node) if self._is_typed_dict(home, made.func) else ""
        return self._in(home, made, seen)

    def _of_class(self, home: Module, made: ast.ClassDef, seen: set[str]) -> str:
        bases = [one.value if isinstance(one, ast.Subscript) else one for one in made.bases]
        if any(self._is_typed_dict(home, one) for one in bases):
            return made.name
        parts = (*bases, *(one.annotation for one in made.body if isinstance(one, ast.AnnAssign)))
        return next((found for one in parts if (found := self._in(home, one, seen))), "")

    def _is_typed_dict(self, home: Module, made: ast.expr) -> bool:
        """A name that is imported twice, such as below `if sys.version_info`, is the right one."""
        root = made.value if isinstance(made, ast.Attribute) else made
        is_clear = not (isinstance(root, ast.Name) and root.id in home.imported_twice)
        return is_clear and self.names.of(home, made) == _TYPED_DICT


def _named_in(hint: ast.expr) -> Iterator[ast.expr]:
    """Yields the names that a type is made of; not what a Literal has, or an Annotated beside its type."""
    match hint:
        case ast.Name() | ast.Attribute():
            yield hint
        case ast.Constant(value=str(text)):
            yield from _named_in(_parsed(text))
        case ast.BinOp(left=left, right=right):
            yield from (*_named_in(left), *_named_in(right))
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            yield from (one for part in parts for one in _named_in(part))
        case ast.Subscript(value=base, slice=inner):
            kind = ast.unparse(base).rpartition(".")[2]
            yield from _named_in(base)
            if kind == "Annotated" and isinstance(inner, ast.Tuple):
                yield from _named_in(inner.elts[0])
            elif kind != "Literal":
                yield from _named_in(inner)


def _parsed(text: str) -> ast.expr:
    """Reads a type in quotes. If it cannot be read, it has no names."""
    try:
        return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError):
        return ast.Constant(None)
