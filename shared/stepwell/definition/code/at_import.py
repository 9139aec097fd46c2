"""Values that are made once for each process, as a module is imported: of clocks and chance, each process has its own.

STARTED = time.time()                        at: datetime = field(default_factory=datetime.now)
def stamp(at=datetime.now()): …              at = time.time()    # in a class
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TypeAlias

from stepwell.definition.code.full_names import FullNames, Variables
from stepwell.definition.code.modules import Def, Module
from stepwell.definition.nondeterminism import Source, source_of

NamedSource: TypeAlias = tuple[str, Source]
_KINDS = frozenset({"clock", "chance"})
_OF_A_LOOP = re.compile(
    r"asyncio\.(Lock|Event|Condition|Semaphore|BoundedSemaphore|Barrier|Queue|LifoQueue|PriorityQueue)"
    r"|anyio\.(Lock|Event|Condition|Semaphore|CapacityLimiter)"
)


class AtImport:
    """Finds what modules of a folder have from clocks and chance."""

    def __init__(self, names: FullNames) -> None:
        self._names = names

    def source_in(self, module: Module, value: ast.expr) -> NamedSource | None:
        """The first clock or chance that the expression calls, by its full name."""
        for node in _called_in(value):
            if found := self.named(module, node.func, has_arguments=bool(node.args)):
                return found
        return None

    def named(
        self, module: Module, node: ast.expr, *, has_arguments: bool, variables: Variables | None = None
    ) -> NamedSource | None:
        """The clock or chance that the expression names."""
        name = self._names.of(module, node, variables)
        source = source_of(name, has_arguments) if name and not self._names.is_own(name) else None
        return (name, source) if source is not None and source.kind in _KINDS else None

    def awaited(self, module: Module, value: ast.expr) -> str:
        """The full name of the lock, event or queue that the expression makes; "" if it makes none."""
        name = self._names.of(module, value.func) if isinstance(value, ast.Call) else ""
        return name if _OF_A_LOOP.fullmatch(name) else ""

    def of_defaults(self, module: Module, function: Def) -> Iterator[tuple[ast.expr, str, Source]]:
        """Yields the defaults of its parameters that a clock or chance makes."""
        for value in (*function.args.defaults, *function.args.kw_defaults):
            if value is not None and (found := self.source_in(module, value)):
                yield value, *found

    def of_class(self, module: Module, made: ast.ClassDef) -> NamedSource | None:
        """What an object of this class has from a clock or chance: by a default, or by what makes one."""
        for node in made.body:
            value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
            if value is None:
                continue
            if found := self.source_in(module, value):
                return found
            for keyword in value.keywords if isinstance(value, ast.Call) else ():
                if keyword.arg == "default_factory" and (found := self._made_by(module, keyword.value)):
                    return found
        return None

    def _made_by(self, module: Module, factory: ast.expr) -> NamedSource | None:
        if isinstance(factory, ast.Lambda):
            return self.source_in(module, factory.body)
        return self.named(module, factory, has_arguments=False)


def _called_in(value: ast.expr) -> Iterator[ast.Call]:
    """The calls of an expression, but for those that a lambda would make when it is called."""
    left: list[ast.AST] = [value]
    while left:
        node = left.pop()
        if isinstance(node, ast.Call):
            yield node
        left += () if isinstance(node, ast.Lambda) else reversed(list(ast.iter_child_nodes(node)))
