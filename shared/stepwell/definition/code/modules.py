"""The modules of a workflow folder as syntax trees: their functions, and what the names in them mean. Nothing runs."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import lru_cache
from typing import TypeAlias

from stepwell.definition.durable import parsed
from stepwell.errors import Problem
from stepwell.values import dataclass

Def: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_MARKS = frozenset({"step", "workflow"})
_PROPERTIES = frozenset({"property", "cached_property"})


@dataclass(frozen=True, slots=True)
class Function:
    """A function at the top of a module, or of a class there: its `owner`. `mark`: `step`, `workflow`, or nothing."""

    name: str
    node: Def
    module: Module
    mark: str
    owner: str = ""


@dataclass(frozen=True, slots=True)
class Module:
    """A module. `names`: what its statements bind. `imports`: full names. `stars`: of what modules it imports `*`.

    `imported_twice`: names that its imports bind to one thing or another, such as in `try` and `except ImportError`.
    `given_twice`: names that it gives a value at several places, be it in a function.
    `values`: what its top level gives to names. `classes`: its own. `methods`: theirs, as `Class.method`.
    """

    name: str
    file: str
    functions: Mapping[str, Function]
    names: frozenset[str]
    imports: Mapping[str, str]
    stars: tuple[str, ...] = ()
    values: Mapping[str, ast.expr] = field(default_factory=dict)
    classes: Mapping[str, ast.ClassDef] = field(default_factory=dict)
    methods: Mapping[str, Function] = field(default_factory=dict)
    imported_twice: frozenset[str] = frozenset()
    given_twice: frozenset[str] = frozenset()

    def has(self, name: str) -> bool:
        """Tells whether the module may have this name. If it imports `*` or has `__getattr__`, it may have any."""
        return name in self.names or "__getattr__" in self.names or bool(self.stars)


@dataclass(frozen=True, slots=True)
class Code:
    """All modules of a folder, by name."""

    modules: Mapping[str, Module]

    def functions(self) -> Iterator[Function]:
        for module in self.modules.values():
            yield from module.functions.values()


def read_code(texts: Mapping[str, tuple[str, str]]) -> Code:
    """`texts`: of each module, by its name, the file and the source. A source with a syntax error is left out."""
    found: dict[str, Module] = {}
    for name, (file, text) in texts.items():
        try:
            tree = parsed(text, file)
        except SyntaxError:  # `functions_in` reports it
            continue
        found[name] = _module(name, file, tree)
    return Code(found)


@lru_cache(maxsize=64)
def _module(name: str, file: str, tree: ast.Module) -> Module:
    binds = _binds(tree, *_package(name, file))
    functions: dict[str, Function] = {}
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    methods: dict[str, Function] = {}
    module = Module(name, file, functions, binds.names, binds.imports, binds.stars, dict(values_of(tree.body)), classes,
                    methods, binds.imported_twice, binds.given_twice)  # fmt: skip
    for node in tree.body:
        if isinstance(node, Def):
            functions[node.name] = Function(node.name, node, module, _mark(node))
    for owner, its in classes.items():
        for one in (one for one in its.body if isinstance(one, Def)):
            own = f"{owner}.{one.name}"
            methods[own] = Function(own, one, module, _mark(one), owner)
    return module


@dataclass(frozen=True, slots=True)
class _Binds:
    """What the statements of a module bind, wherever its file is; as in Module."""

    names: frozenset[str]
    imports: Mapping[str, str]
    stars: tuple[str, ...]
    imported_twice: frozenset[str]
    given_twice: frozenset[str]


@lru_cache(maxsize=64)
def _binds(tree: ast.Module, *package: str) -> _Binds:
    imports: dict[str, str] = {}
    twice, names, stars, given_twice = set[str](), set[str](), list[str](), set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            made = _imported(node, package)
            twice |= {one for one, full in made.items() if imports.get(one, full) != full}
            imports |= made
            if isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
                stars.append(_home(node, package))
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            given_twice |= {node.name} & names
            names.add(node.name)
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            given_twice |= {node.id} & names
            names.add(node.id)
        elif isinstance(node, ast.arg):  # a local variable is among the names, too
            names.add(node.arg)
    named = frozenset(names | imports.keys())
    return _Binds(named, imports, tuple(stars), frozenset(twice), frozenset(given_twice))


def _imported(node: ast.Import | ast.ImportFrom, package: Sequence[str]) -> dict[str, str]:
    """`package`: the parts of the name of the package that the module is in, or is."""
    if isinstance(node, ast.Import):
        return {one.asname or one.name.partition(".")[0]: one.name if one.asname else one.name.partition(".")[0]
                for one in node.names}  # fmt: skip
    home = _home(node, package)
    return {one.asname or one.name: f"{home}.{one.name}".lstrip(".") for one in node.names if one.name != "*"}


def imported_from(module: Module, node: ast.ImportFrom) -> str:
    """Returns the full name of the module that an import takes names from."""
    return _home(node, package_of(module))


def package_of(module: Module) -> list[str]:
    """Returns the parts of the name of the package that the module is in, or is."""
    return _package(module.name, module.file)


def _package(name: str, file: str) -> list[str]:
    return name.split(".")[: None if file.endswith("__init__.py") else -1]


def _home(node: ast.ImportFrom, package: Sequence[str]) -> str:
    around = package[: max(len(package) - node.level + 1, 0)] if node.level else []
    return ".".join((*around, *([node.module] if node.module else ())))


def values_of(body: Iterable[ast.stmt]) -> Iterator[tuple[str, ast.expr]]:
    """Yields what these statements give to names, each name with its value."""
    for node in body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
        if value is not None:
            yield from ((one.id, value) for one in targets if isinstance(one, ast.Name))


def _mark(node: Def) -> str:
    for one in node.decorator_list:
        called = one.func if isinstance(one, ast.Call) else one
        name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
        if name in _MARKS:
            return name
    return ""


def is_property(method: Def) -> bool:
    """Tells whether a method is called when it is read."""
    marks = (one.attr if isinstance(one, ast.Attribute) else getattr(one, "id", "") for one in method.decorator_list)
    return not _PROPERTIES.isdisjoint(marks)


def makes_coroutine(function: ast.AST | None) -> bool:
    """Tells whether a call of it certainly makes a coroutine: a decorator may make something else of the function."""
    if not isinstance(function, ast.AsyncFunctionDef) or function.decorator_list:
        return False
    return not any(isinstance(one, ast.Yield) for one in own_nodes(function))


def own_nodes(function: Def) -> Iterator[ast.AST]:
    """Yields the nodes of the function's body, without those of functions and classes within it."""
    left: list[ast.AST] = [*reversed(function.body)]
    while left:
        node = left.pop()
        yield node
        if not isinstance(node, Def | ast.Lambda | ast.ClassDef):
            left += reversed(list(ast.iter_child_nodes(node)))


def problem_at(node: ast.AST, file: str, code: str, message: str, hint: str, severity: str = "error") -> Problem:
    """Returns a problem of code, at its place."""
    line, column = getattr(node, "lineno", 0), getattr(node, "col_offset", -1) + 1
    return Problem(code, message, hint=hint, file=file, line=line, column=column, severity=severity)
