"""Values that are made once for each process, as a module is imported: of clocks and chance, each process has its own.

STARTED = time.time()                        at: datetime = field(default_factory=datetime.now)
def stamp(at=datetime.now()): …              at = time.time()    # in a class
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from stepwell.definition.code import Def, Module
from stepwell.definition.nondeterminism import Source, source_of

_KINDS = frozenset({"clock", "chance"})


def source_in(module: Module, value: ast.expr) -> tuple[str, Source] | None:
    """The first clock or chance that the expression calls, by its full name."""
    for node in ast.walk(value):
        if isinstance(node, ast.Call) and (found := named_source(module, node.func, has_arguments=bool(node.args))):
            return found
    return None


def named_source(module: Module, node: ast.expr, *, has_arguments: bool) -> tuple[str, Source] | None:
    """The clock or chance that the expression names."""
    name = module.meaning(node)
    source = source_of(name, has_arguments) if name else None
    return (name, source) if source is not None and source.kind in _KINDS else None


def of_defaults(module: Module, function: Def) -> Iterator[tuple[ast.expr, str, Source]]:
    """Yields the defaults of its parameters that a clock or chance makes."""
    for value in (*function.args.defaults, *function.args.kw_defaults):
        if value is not None and (found := source_in(module, value)):
            yield value, *found


def of_class(module: Module, made: ast.ClassDef) -> tuple[str, Source] | None:
    """What an object of this class has from a clock or chance: by a default, or by what makes one."""
    for node in made.body:
        value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
        if value is None:
            continue
        if found := source_in(module, value):
            return found
        for keyword in value.keywords if isinstance(value, ast.Call) else ():
            if keyword.arg == "default_factory" and (found := named_source(module, keyword.value, has_arguments=False)):
                return found
    return None
