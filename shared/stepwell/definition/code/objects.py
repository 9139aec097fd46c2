"""What the variables of a function stand for, as far as its code says so without running.

pot = Pot()      now = time.time      def f(pot: Pot | None)      def roll(self)
"""

from __future__ import annotations

import ast
from collections import Counter

from stepwell.definition.code.modules import Function

_PLAIN = frozenset({"staticmethod"})  # its first parameter is like any other
_KNOWN = (
    ast.Name | ast.Attribute | ast.Call | ast.BinOp | ast.BoolOp | ast.IfExp | ast.Subscript | ast.Dict | ast.List
    | ast.Tuple
)  # fmt: skip


def variables_of(function: Function) -> dict[str, ast.expr | None]:
    """Returns its variables, each with the one value that it is ever given, or None.

    A parameter is an object of the class that its hint names; `self` one of the method's own class.
    """
    nodes = list(ast.walk(function.node))
    stored = Counter(one.id for one in nodes if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store))
    given = Counter(one.arg for one in nodes if isinstance(one, ast.arg))
    found: dict[str, ast.expr | None] = dict.fromkeys((*stored, *given))
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Name(name)], value=value) if isinstance(value, _KNOWN):
                found[name] = value
            case ast.AnnAssign(target=ast.Name(name), annotation=hint):
                found[name] = _object_of(hint)
            case ast.arg(arg=name, annotation=ast.expr() as hint):
                found[name] = _object_of(hint)
    found |= _own(function)
    return {name: value if stored[name] + given[name] == 1 else None for name, value in found.items()}


def _own(function: Function) -> dict[str, ast.expr]:
    """`self` and `cls` of a method."""
    marks = {one.id for one in function.node.decorator_list if isinstance(one, ast.Name)}
    parameters = [*function.node.args.posonlyargs, *function.node.args.args]
    if not function.owner or not parameters or not marks.isdisjoint(_PLAIN):
        return {}
    owner = ast.Name(function.owner, ast.Load())
    return {parameters[0].arg: owner if "classmethod" in marks else ast.Call(owner, [], [])}


def _object_of(hint: ast.expr) -> ast.expr | None:
    match hint:
        case ast.Name() | ast.Attribute():
            return ast.Call(hint, [], [])
        case ast.BinOp(left=one, op=ast.BitOr(), right=ast.Constant(None)):
            return _object_of(one)
        case ast.Constant(str(text)) if text.isidentifier():
            return _object_of(ast.Name(text, ast.Load()))
        case _:
            return None
