"""Raises `not_deterministic` if a function's turn calls something whose result differs in a replay.

    order["at"] = now(UTC)     is compiled as     order["at"] = __stepwell_look__(now, True)(UTC)

The functions of the workflow folder are recompiled so that each call is checked first. It costs nothing elsewhere:
steps and libraries keep their code. Calls within a library are not checked.
"""

from __future__ import annotations

import ast
import builtins
import random
import sys
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, TypeVar

from stepwell.definition.nondeterminism import Source, source_of
from stepwell.engine.durable.session import CURRENT
from stepwell.errors import InvalidInput
from stepwell.runtime.durable.places import here
from stepwell.runtime.steps.binding import CONTEXT
from stepwell.runtime.steps.folders import own_place

_LOOK = "__stepwell_look__"  # the name of `_look` in the modules of the folder
_LOOK_AT_OWNER = "__stepwell_look_at_owner__"
_KINDS = frozenset({"clock", "chance", "thread", "file", "socket"})
_PUBLIC = {"posix": "os", "nt": "os", "posixpath": "os.path", "ntpath": "os.path", "genericpath": "os.path",
           "asyncio.runners": "asyncio", "_io": "io", "_socket": "socket", "_sqlite3": "sqlite3"}  # fmt: skip
_Part = TypeVar("_Part", ast.Subscript, ast.Attribute)
_HARMLESS = frozenset(dir(builtins)) - {"open", "input"}


def watch(function: Callable[..., object]) -> None:
    """Has the calls in the function's module checked, and in those modules of the folder whose code it uses."""
    left = [function.__module__]
    while left:
        module = sys.modules.get(left.pop())
        file = getattr(module, "__file__", None) or ""
        if module is None or not file.endswith(".py") or own_place(file) is None or _LOOK in vars(module):
            continue
        left += {name for value in vars(module).values() if isinstance(name := _home(value), str)}
        setattr(module, _LOOK, _look)
        setattr(module, _LOOK_AT_OWNER, _look_at_owner)
        _compile_anew(module, Path(file))


def _home(value: object) -> object:
    return value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)


def _compile_anew(module: ModuleType, file: Path) -> None:
    """Gives the module's functions their checked code, matched by name and line. Steps keep their own."""
    functions = list(_functions(module))
    if not functions:
        return
    try:
        found = _watched(file.read_bytes())
    except (OSError, SyntaxError, ValueError):  # the file has changed since its import and will be reloaded
        return
    for function in functions:
        was = function.__code__
        made = found.get((was.co_qualname, was.co_firstlineno), [])
        if len(made) == 1 and _shape(made[0]) == _shape(was):
            function.__code__ = _placed(made[0], was.co_filename)


@lru_cache(maxsize=32)  # tests import the same modules again and again
def _watched(text: bytes) -> dict[tuple[str, int], list[CodeType]]:
    """Compiles a module with its checks. Returns its functions' code by name and line."""
    tree = ast.parse(text)
    own = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}
    watched = ast.fix_missing_locations(_Watched(_HARMLESS | own).visit(tree))
    found: dict[tuple[str, int], list[CodeType]] = {}
    for one in _codes(compile(watched, "<watched>", "exec", dont_inherit=True)):
        found.setdefault((one.co_qualname, one.co_firstlineno), []).append(one)
    return found


def _placed(code: CodeType, file: str) -> CodeType:
    """The same code, and all within it, as that of a file."""
    within = tuple(_placed(one, file) if isinstance(one, CodeType) else one for one in code.co_consts)
    return code.replace(co_filename=file, co_consts=within)


def _shape(code: CodeType) -> tuple[object, ...]:
    return code.co_varnames, code.co_freevars, code.co_cellvars, code.co_argcount, code.co_flags


def _codes(code: CodeType) -> Iterator[CodeType]:
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield one
            yield from _codes(one)


def _functions(module: ModuleType) -> Iterator[FunctionType]:
    """Yields the functions and methods written in this module, but for steps."""
    left: list[Any] = list(vars(module).values())
    seen: set[int] = set()
    while left:
        one = left.pop()
        if id(one) in seen or hasattr(one, "__stepwell__"):
            continue
        seen.add(id(one))
        if isinstance(one, staticmethod | classmethod):
            left.append(one.__func__)
        elif isinstance(one, property):
            left += [one.fget, one.fset]
        elif isinstance(one, type):
            left += vars(one).values() if one.__module__ == module.__name__ else ()
        elif isinstance(one, FunctionType) and one.__globals__ is vars(module):
            yield one
        if callable(one) and "__wrapped__" in getattr(one, "__dict__", ()):
            left.append(one.__wrapped__)


class _Watched(ast.NodeTransformer):
    """Adds a check to each call, but for calls of names known to be harmless, and of `ctx`."""

    def __init__(self, harmless: frozenset[str] | set[str]) -> None:
        self._harmless, self._depth = harmless, 0
        self._is_flow = False  # within an `async def` at module level, not in a closure

    def _within(self, node: ast.AST) -> ast.AST:
        was = self._is_flow
        self._is_flow = was if self._depth else isinstance(node, ast.AsyncFunctionDef)
        self._depth += 1
        try:
            return self.generic_visit(node)
        finally:
            self._depth, self._is_flow = self._depth - 1, was

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._within(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self._within(node)

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        return self._within(node)

    def visit_Call(self, node: ast.Call) -> ast.Call:
        self.generic_visit(node)
        if not self._is_harmless(node.func):
            look, has_arguments = ast.Name(_LOOK, ast.Load()), ast.Constant(bool(node.args))
            node.func = ast.copy_location(ast.Call(look, [node.func, has_arguments], []), node.func)
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.Subscript:
        self.generic_visit(node)
        return self._with_owner(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.Attribute:
        self.generic_visit(node)
        return self._with_owner(node)

    def _with_owner(self, node: _Part) -> _Part:
        """Adds a check of the object whose item or attribute a closure sets: `ctx.run` may be given that closure."""
        is_closure = self._depth > 1 or not self._is_flow
        if is_closure and isinstance(node.value, ast.Name) and not isinstance(node.ctx, ast.Load):
            look = ast.Call(ast.Name(_LOOK_AT_OWNER, ast.Load()), [node.value], [])
            node.value = ast.copy_location(look, node.value)
        return node

    def _is_harmless(self, called: ast.expr) -> bool:
        if isinstance(called, ast.Name):
            return called.id in self._harmless
        return isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name) and called.value.id == CONTEXT


def _look(called: Any, has_arguments: bool) -> Any:
    """Returns the callable about to be called. Raises InvalidInput if a function must not call it in its turn."""
    session = CURRENT.get(None)
    kept = getattr(session, "kept", None)
    if kept is not None:  # in code of `ctx.run`, or in a query
        return kept.checked(called)
    if session is None:
        return called
    name = _name_of(called)
    source = _source(name, has_arguments) if name else None
    if source is None:
        return called
    raise InvalidInput(f"{source.kind}: {name} {source.does}{here()}", code="not_deterministic", hint=source.hint)


def _look_at_owner(owner: Any) -> Any:
    """Returns the object of which an item or attribute is about to be set. Raises InvalidInput if it may not."""
    kept = getattr(CURRENT.get(None), "kept", None)
    if kept is not None:
        kept.check(owner)
    return owner


@lru_cache(maxsize=4_096)
def _source(name: str, has_arguments: bool) -> Source | None:
    source = source_of(name, has_arguments)
    return source if source is not None and source.kind in _KINDS else None


def _name_of(called: Any) -> str:
    """Returns the documented full name of a callable of the standard library; "" for any other."""
    while isinstance(called, partial):
        called = called.func
    name, owner = getattr(called, "__qualname__", None), getattr(called, "__self__", None)
    if not isinstance(name, str):
        return ""
    if isinstance(owner, random.Random):  # the functions of `random` are methods of a shared instance
        is_shared = owner is getattr(random, "_inst", None) or isinstance(owner, random.SystemRandom)
        return f"random.{called.__name__}" if is_shared else ""
    module = getattr(called, "__module__", None)
    if isinstance(owner, type):
        module, name = owner.__module__, f"{owner.__qualname__}.{called.__name__}"
    if not isinstance(module, str) or module.partition(".")[0] not in sys.stdlib_module_names:
        return ""
    module = module.partition("._")[0]
    return f"{_PUBLIC.get(module, module)}.{name}"
