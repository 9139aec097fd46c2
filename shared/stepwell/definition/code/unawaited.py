"""Operations of `ctx` that are used as if they were their results: `ctx.step(…)["id"]`, `if ctx.event(…):`."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from stepwell.definition.code.context_calls import Wrong
from stepwell.definition.code.context_forms import AWAITED, operation_of
from stepwell.definition.code.context_names import may_be_workflows
from stepwell.definition.code.modules import Function, own_nodes

COROUTINES = frozenset({"asyncio.sleep", "asyncio.wait", "asyncio.wait_for"})  # they do nothing unless awaited
_OF_OPERATIONS = frozenset({"cancel", "close", "done", "send", "throw", "url"})  # attributes that are no result's


def used_unawaited(function: Function) -> Iterator[Wrong]:
    """Yields each operation that is used before it is awaited, and each that a variable keeps in vain."""
    if not may_be_workflows(function):
        return
    nodes = list(ast.walk(function.node))
    values = [one for node in nodes for one in values_in(node)]
    used = {id(one) for one in values}
    failing = {id(one) for node in nodes for one in _parts_in(node)}
    loads = ((made, [id(one) for one in _loads(nodes, name)]) for name, made in kept(nodes))
    in_vain = (made for made, read in loads if used.issuperset(read) or not failing.isdisjoint(read))
    for made in (*values, *in_vain):
        if (name := operation_of(made)) in AWAITED:
            what = f"the operation ctx.{name}(…) is not awaited, and has no result"
            yield made, "never_awaited", what, f"await ctx.{name}(…)"


def returned_unawaited(function: Function, is_async: Callable[[ast.expr], bool]) -> Iterator[Wrong]:
    """Yields what a workflow returns that it is to await. `is_async`: whether a name is a coroutine function's."""
    if function.mark != "workflow":
        return
    several = {name: made for name, made in kept(ast.walk(function.node)) if _operation_in(made)}
    for node in own_nodes(function.node):
        made = node.value if isinstance(node, ast.Return) else None
        if made is not None and (
            name := _operation_in(several.get(made.id, made) if isinstance(made, ast.Name) else made)
        ):
            message = f"operations of ctx.{name}(…) are returned in a collection, and not awaited"
            yield node, "never_awaited", message, "return await ctx.all(*[…])"
        elif isinstance(made, ast.Call) and (operation_of(made) in AWAITED or is_async(made.func)):
            called = f"{ast.unparse(made.func)}(…)"
            yield node, "never_awaited", f"{called} is returned, and not awaited", f"return await {called}"


def _operation_in(value: ast.expr) -> str:
    """The name of an operation that a collection is written with; "" if there is none."""
    match value:
        case ast.List(elts=parts) | ast.Tuple(elts=parts):
            return next((name for one in parts if (name := operation_of(one)) in AWAITED), "")
        case ast.ListComp(elt=one) | ast.GeneratorExp(elt=one) | ast.SetComp(elt=one) | ast.DictComp(value=one):
            return name if (name := operation_of(one)) in AWAITED else ""
    return ""


def kept(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, ast.expr]]:
    """Yields the variables that get one value and nothing else, which is no callback."""
    several = list(nodes)
    stores = Counter(one.id for one in several if isinstance(one, ast.Name) and not isinstance(one.ctx, ast.Load))
    stores.update(one.arg for one in several if isinstance(one, ast.arg))
    stores.update(name for one in several if isinstance(one, ast.Global | ast.Nonlocal) for name in one.names)
    for node in several:
        match node:
            case (
                ast.Assign(targets=[ast.Name(name)], value=ast.expr() as made)
                | ast.AnnAssign(target=ast.Name(name), value=ast.expr() as made)
            ) if operation_of(made) != "callback":
                if stores[name] == 1:
                    yield name, made


def _loads(nodes: Iterable[ast.AST], name: str) -> Iterator[ast.AST]:
    return (one for one in nodes if isinstance(one, ast.Name) and one.id == name and isinstance(one.ctx, ast.Load))


def _parts_in(node: ast.AST) -> Iterator[ast.expr]:
    """Yields the expressions of which the node reads a part. An operation has none, even once it is awaited."""
    match node:
        case ast.Subscript(value=value):
            yield value
        case ast.Attribute(value=value, attr=attr) if attr not in _OF_OPERATIONS:
            yield value


def values_in(node: ast.AST) -> Iterator[ast.expr]:
    """Yields the expressions whose values the node needs: an operation that nobody has awaited has none."""
    yield from _parts_in(node)
    match node:
        case ast.FormattedValue(value=value) | ast.AugAssign(value=value):
            yield value
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test) | ast.Assert(test=test):
            yield from test.values if isinstance(test, ast.BoolOp) else [test]
        case ast.UnaryOp(operand=value):
            yield value
        case ast.For(iter=ast.Name() as value) | ast.comprehension(iter=ast.Name() as value):
            yield value  # an operation that is written there is told as `bad_await`
        case ast.Compare(left=left, ops=ops, comparators=others):
            if not any(isinstance(one, ast.Is | ast.IsNot | ast.In | ast.NotIn) for one in ops):
                yield from (left, *others)
        case ast.BinOp(left=left, right=right):
            yield from (left, right)
