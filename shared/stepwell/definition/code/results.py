"""Results of operations, used as what they are not: `if await ctx.first(…)`, `(await ctx.approval(…)).decision`."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping

from stepwell.definition.code.context_calls import Wrong
from stepwell.definition.code.context_forms import AWAITED, TIMED, operation_of
from stepwell.definition.code.context_names import may_be_workflows
from stepwell.definition.code.modules import Function
from stepwell.definition.code.unawaited import kept

_JSON = frozenset(name for one in (dict, list, str, int, float, bool, type(None)) for name in dir(one))
_OF_TYPE = frozenset({"callback", "event"})  # with `type=`, their result is of this type


def wrong_results(function: Function, called: Callable[[ast.expr], Function | None]) -> Iterator[Wrong]:
    """Yields each result that is asked for what it cannot have. `called`: returns the folder's function of a name."""
    if not may_be_workflows(function):
        return
    nodes = list(ast.walk(function.node))
    module = function.module
    others = {*module.imports, *module.values, *module.functions, *module.classes}  # a nested function may read these
    results = ((name, made) for name, made in kept(nodes) if name not in others)
    variables = {name: made.value for name, made in results if isinstance(made, ast.Await)}
    seen = set[int]()
    for node in nodes:
        for asked in _asked(node):
            if id(asked) not in seen and _is_tuple(_made(asked, variables)):
                seen.add(id(asked))
                message = "ctx.first gives a tuple, which is always true, and never None"
                yield asked, "bad_condition", message, f"write {_named(asked)} = await ctx.first(…), or read .winner"
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and node.attr not in _JSON:
            made = _made(node.value, variables)
            if made is not None and (hint := _typed(made, called)):
                message = f"what {_short(made)} gives is JSON, and has no attribute {node.attr!r}"
                yield node, "untyped_result", message, hint.format(node.attr)


def _made(node: ast.expr, variables: Mapping[str, ast.expr]) -> ast.expr | None:
    """The operation of which an expression is the result."""
    match node:
        case ast.Await(value=made):
            return made
        case ast.Name(name):
            return variables.get(name)
    return None


def _asked(node: ast.AST) -> Iterator[ast.expr]:
    """Yields the expressions of which the node asks whether they are true, or None."""
    match node:
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test) | ast.Assert(test=test):
            yield from test.values if isinstance(test, ast.BoolOp) else [test]
        case ast.UnaryOp(op=ast.Not(), operand=value):
            yield value
        case ast.BoolOp(values=values):
            yield from values[:-1]
        case ast.Compare(left=left, ops=[ast.Is() | ast.IsNot()], comparators=[ast.Constant(None)]):
            yield left


def _is_tuple(made: ast.expr | None) -> bool:
    """Tells whether it is a `ctx.first` that has a result: timers have none."""
    if not isinstance(made, ast.Call) or operation_of(made) != "first":
        return False
    return any(operation_of(one) in AWAITED - TIMED for one in made.args)


def _named(asked: ast.expr) -> str:
    return f"({asked.id if isinstance(asked, ast.Name) else 'paid'},)"


def _short(made: ast.expr) -> str:
    target = made.args[0] if isinstance(made, ast.Call) and made.args else None
    return f"ctx.{operation_of(made)}({ast.unparse(target)[:30] + ', ' if target is not None else ''}…)"


def _typed(made: ast.expr, called: Callable[[ast.expr], Function | None]) -> str:
    """What to do about a result that is JSON; "" if it may be anything else."""
    name = operation_of(made)
    if not isinstance(made, ast.Call) or any(one.arg in {"type", None} for one in made.keywords):
        return ""
    target = called(made.args[0]) if made.args else None
    if name == "step" and target is not None and target.node.returns is None and _is_plain(target):
        return f'write what it returns, as in def {target.name}(…) -> Receipt, or read it by its name: ["{{}}"]'
    if name in _OF_TYPE:
        return 'say what it is by type=, or read it by its name: ["{}"]'
    return 'it is a dict: read it by its name, ["{}"]' if name == "approval" else ""


def _is_plain(function: Function) -> bool:
    """Tells whether nothing but `@step` may change what the function returns."""
    marks = (one.func if isinstance(one, ast.Call) else one for one in function.node.decorator_list)
    return not function.owner and all(ast.unparse(one).rpartition(".")[2] == "step" for one in marks)
