"""What of a durable function a replay runs again, and which functions its module runs as steps."""

from __future__ import annotations

import ast

from stepwell.definition.code.context_names import has_another
from stepwell.definition.code.full_names import FullNames
from stepwell.definition.code.modules import Def, Function, Module
from stepwell.definition.code.own_steps import asked_of

_READERS = frozenset({"query", "validator"})
_TAKE_A_STEP = frozenset({"step", "map", "run"})


def replayed(function: Def) -> list[ast.AST]:
    """Returns the nodes of the function's body, without what it gives to `ctx.run`, its queries and its validators.

    That code is a step's, or is not replayed: it may use the clock.
    """
    calls = (node for node in ast.walk(function) if isinstance(node, ast.Call) and asked_of(node) == "run")
    given = [node.args[0] for node in calls if node.args]
    names = {one.id for one in given if isinstance(one, ast.Name)}
    found: list[ast.AST] = []
    left: list[ast.AST] = [*reversed(function.body)]
    while left:
        node = left.pop()
        if any(node is one for one in given) or (isinstance(node, Def) and (node.name in names or reader_of(node))):
            continue
        found.append(node)
        left += reversed(list(ast.iter_child_nodes(node)))
    return found


def reader_of(handler: Def) -> str:
    """`query` or `validator`, if it is marked as one of a function's."""
    marks = (one.func if isinstance(one, ast.Call) else one for one in handler.decorator_list)
    return next((one.attr for one in marks if isinstance(one, ast.Attribute) and one.attr in _READERS), "")


def is_run_as_step(names: FullNames, module: Module, called: Function) -> bool:
    """Tells whether the module gives this function to `ctx.step`, `ctx.map` or `ctx.run`, in any of its functions."""
    for function in (*module.functions.values(), *module.methods.values()):
        for node in () if has_another(function.node) else ast.walk(function.node):
            if isinstance(node, ast.Call) and node.args and asked_of(node) in _TAKE_A_STEP:
                given = names.function(names.of(module, node.args[0], {}))
                if given is not None and given.node is called.node:
                    return True
    return False
