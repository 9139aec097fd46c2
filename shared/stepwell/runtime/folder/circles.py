"""Finds imports that fail because modules import each other: the name is defined after the import that asks for it.

ma.py: from mb import g      a run imports ma: it begins, imports mb, and mb wants f of ma, which has no f yet
mb.py: from ma import f
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence

from stepwell.definition.code.modules import Code, Module, imported_from, problem_at
from stepwell.errors import Problem

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_MOST = 100  # modules under way at once: more are no folder of workflows
_BLOCKS = (ast.If, ast.Try, ast.With, ast.For, ast.While)


def circular_imports(code: Code, trees: Mapping[str, ast.Module], roots: Iterable[str]) -> list[Problem]:
    """Returns a warning for the first such import of each module that a worker may import first: the `roots`."""
    found: dict[tuple[str, int], Problem] = {}
    for root in roots:
        problem = next(_Import(code, trees).problems(root), None)
        if problem is not None:
            found.setdefault((problem.file, problem.line), problem)
    return list(found.values())


class _Import:
    """The import of one module in a new process, statement by statement, as far as it is written out."""

    def __init__(self, code: Code, trees: Mapping[str, ast.Module]) -> None:
        self._code, self._trees = code, trees
        self._begun: dict[str, int] = {}  # the statement at which each module stands
        self._under_way: list[str] = []

    def problems(self, name: str, *, is_sure: bool = True) -> Iterator[Problem]:
        """What fails as the module is imported. `is_sure`: nothing decides whether it is, or takes its failure."""
        for package in _packages(name):
            if package not in self._trees or package in self._begun or len(self._under_way) > _MOST:
                continue
            self._under_way.append(package)
            for number, statement in enumerate(self._trees[package].body):
                self._begun[package] = number
                yield from self._executed(self._code.modules[package], statement, is_sure=is_sure)
            self._begun[package] = len(self._trees[package].body)
            self._under_way.pop()

    def _executed(self, module: Module, statement: ast.stmt, *, is_sure: bool) -> Iterator[Problem]:
        if isinstance(statement, ast.Import):
            for one in statement.names:
                yield from self.problems(one.name, is_sure=is_sure)
        elif isinstance(statement, ast.ImportFrom):
            for one in statement.names:
                yield from self._taken(module, statement, one, is_sure=is_sure)
        elif isinstance(statement, _BLOCKS) and "TYPE_CHECKING" not in ast.unparse(statement).partition("\n")[0]:
            for inner in _within(statement):
                yield from self._executed(module, inner, is_sure=False)

    def _taken(
        self, module: Module, statement: ast.ImportFrom, alias: ast.alias, *, is_sure: bool
    ) -> Iterator[Problem]:
        home, name = imported_from(module, statement), alias.name
        full = f"{home}.{name}"
        yield from self.problems(home, is_sure=is_sure)
        yield from self.problems(full, is_sure=is_sure)  # it may be a module itself
        if is_sure and home != module.name and full not in self._trees and self._comes_later(home, name):
            message = f"{module.name} imports {name!r} from {home}, which imports {module.name} before it has it"
            hint = f"import it in the function that needs it, or move {name!r} into a module that both import"
            yield problem_at(statement, module.file, "circular_import", message, hint, "warning")

    def _comes_later(self, home: str, name: str) -> bool:
        """Tells whether the module is under way, and gets this name by a later statement alone."""
        if home not in self._trees or "__getattr__" in self._code.modules[home].names:
            return False
        body, at = self._trees[home].body, self._begun[home]
        before = _bound(body[: at + 1])
        return name in _bound(body[at + 1 :]) and name not in before and "*" not in before


def _packages(name: str) -> Iterator[str]:
    """Yields the packages around a module, and the module: Python imports them in this order."""
    parts = name.split(".")
    yield from (".".join(parts[: end + 1]) for end in range(len(parts)))


def _within(statement: ast.stmt) -> Iterator[ast.stmt]:
    for part in ast.iter_child_nodes(statement):
        if isinstance(part, ast.stmt):
            yield part
        elif isinstance(part, ast.ExceptHandler):
            yield from part.body


def _bound(statements: Sequence[ast.stmt]) -> set[str]:
    """Returns the names that these statements bind, without those of functions and classes within."""
    found, left = set[str](), list[ast.AST](statements)
    while left:
        node = left.pop()
        if isinstance(node, ast.alias):
            found.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, _SCOPES):
            found |= {node.name} if not isinstance(node, ast.Lambda) else set()
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            found.add(node.id)
        else:
            left += ast.iter_child_nodes(node)
    return found
