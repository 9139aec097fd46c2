"""The modules of a workflow folder as syntax trees: their functions, and what the names in them mean. Nothing runs."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

Def: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_MARKS = frozenset({"step", "workflow"})


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
    """A module. `names`: what its top level defines. `meanings`: full names of what it imports, or makes by a call.

    `values`: what its top level gives to names. `classes`: its own. `methods`: theirs, as `Class.method`.
    """

    name: str
    file: str
    functions: Mapping[str, Function]
    names: frozenset[str]
    meanings: Mapping[str, str]
    values: Mapping[str, ast.expr] = field(default_factory=dict)
    classes: Mapping[str, ast.ClassDef] = field(default_factory=dict)
    methods: Mapping[str, Function] = field(default_factory=dict)

    def has(self, name: str) -> bool:
        """Whether the module may have this name: one that imports `*`, or makes names when asked, may have any."""
        return name in self.names or not self.names.isdisjoint({"*", "__getattr__"})

    def meaning(self, node: ast.expr) -> str:
        """The full name of what `time.time` or `client.get` is; empty for what is not known."""
        if isinstance(node, ast.Attribute):
            base = self.meaning(node.value)
            return f"{base}.{node.attr}" if base else ""
        if isinstance(node, ast.Call):  # a method of what a call makes: `Path(…).read_text`
            return self.meaning(node.func)
        if not isinstance(node, ast.Name):
            return ""
        is_builtin = node.id not in self.names and hasattr(builtins, node.id)
        return self.meanings.get(node.id) or (node.id if is_builtin else "")


@dataclass(frozen=True, slots=True)
class Code:
    """All modules of a folder, by name."""

    modules: Mapping[str, Module]

    def function(self, module: Module, node: ast.expr) -> Function | None:
        """The folder's function that this expression names."""
        if isinstance(node, ast.Name) and node.id in module.functions:
            return module.functions[node.id]
        other, name = self.home(module, node)
        return other.functions.get(name) if other is not None else None

    def method(self, module: Module, owner: ast.expr, name: str) -> Function | None:
        """The method of the folder's class that this expression names; none that it has from another class."""
        home, made = self.home(module, owner)
        return home.methods.get(f"{made}.{name}") if home is not None else None

    def home(self, module: Module, node: ast.expr) -> tuple[Module | None, str]:
        """The folder's module that has what this expression names, and its name there."""
        if isinstance(node, ast.Name) and (node.id in module.values or node.id in module.classes):
            return module, node.id
        home, _, name = module.meaning(node).rpartition(".")
        return self.modules.get(home), name

    def functions(self) -> Iterator[Function]:
        for module in self.modules.values():
            yield from module.functions.values()


def read_code(texts: Mapping[str, tuple[str, str]]) -> Code:
    """`texts`: of each module, by its name, the file and the source. A source with a syntax error is left out."""
    found: dict[str, Module] = {}
    for name, (file, text) in texts.items():
        try:
            tree = ast.parse(text, file)
        except (SyntaxError, ValueError, RecursionError, SystemError):  # `functions_in` reports it
            continue
        found[name] = _module(name, file, tree)
    return Code(found)


def _module(name: str, file: str, tree: ast.Module) -> Module:
    meanings: dict[str, str] = {}
    for node in ast.walk(tree):
        meanings |= _imported(node)
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            draft = Module(name, file, {}, frozenset(), meanings)
            meanings |= {one.id: draft.meaning(node.value.func) for one in node.targets if isinstance(one, ast.Name)}
    functions: dict[str, Function] = {}
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    names = frozenset(_defined(tree)) | meanings.keys()
    methods: dict[str, Function] = {}
    module = Module(name, file, functions, names, meanings, dict(_values(tree)), classes, methods)
    for node in tree.body:
        if isinstance(node, Def):
            functions[node.name] = Function(node.name, node, module, _mark(node))
    for owner, made in classes.items():
        for one in (one for one in made.body if isinstance(one, Def)):
            own = f"{owner}.{one.name}"
            methods[own] = Function(own, one, module, _mark(one), owner)
    return module


def _imported(node: ast.AST) -> dict[str, str]:
    if isinstance(node, ast.Import):
        return {one.asname or one.name.partition(".")[0]: one.name if one.asname else one.name.partition(".")[0]
                for one in node.names}  # fmt: skip
    if isinstance(node, ast.ImportFrom) and node.module and not node.level:
        return {one.asname or one.name: f"{node.module}.{one.name}" for one in node.names}
    return {}


def _defined(tree: ast.Module) -> Iterator[str]:
    """The names that any statement of the module binds, a local variable's among them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.ImportFrom):  # a relative one has no meaning, but its names are there
            yield from (one.asname or one.name for one in node.names)


def _values(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    for node in tree.body:
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
