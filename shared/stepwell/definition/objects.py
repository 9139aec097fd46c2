"""Whose methods a function calls, as far as its code says so without running.

pot = Pot(); pot.roll()        Pot().roll()        Pot.roll(pot)        def f(pot: Pot): pot.roll()        self.roll()
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Mapping

from stepwell.definition.code import Function

_PLAIN = frozenset({"staticmethod"})  # its first parameter is like any other


def classes_of(function: Function) -> dict[str, ast.expr]:
    """Returns the classes of its variables: of parameters by their hints, of others by the one call that makes them."""
    parameters = function.node.args
    found: dict[str, ast.expr] = {
        one.arg: one.annotation
        for one in (*parameters.posonlyargs, *parameters.args, *parameters.kwonlyargs)
        if isinstance(one.annotation, ast.Name | ast.Attribute)
    }
    marks = {one.id for one in function.node.decorator_list if isinstance(one, ast.Name)}
    if function.owner and parameters.args and marks.isdisjoint(_PLAIN):
        found[parameters.args[0].arg] = ast.Name(function.owner, ast.Load())
    nodes = list(ast.walk(function.node))
    stored = Counter(one.id for one in nodes if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store))
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Name(name)], value=ast.Call(func=made)) if stored[name] == 1:
                found.setdefault(name, made)
    return {name: made for name, made in found.items() if stored[name] < 2}


def class_of(function: Function, classes: Mapping[str, ast.expr], node: ast.expr) -> ast.expr:
    """Returns what may name the class: of what a call makes, of a variable, or the expression itself."""
    match node:
        case ast.Call(func=made):
            return made
        case ast.Name(name) if name in classes:
            return classes[name]
        case ast.Name(name) if isinstance(value := function.module.values.get(name), ast.Call):
            return value.func
        case _:
            return node
