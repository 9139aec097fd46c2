"""Operations of `ctx` that are used as if they were their results: `ctx.step(…)["id"]`, `if ctx.event(…):`."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from stepwell.definition.code.context_calls import Called, Wrong
from stepwell.definition.code.context_forms import AWAITED, operation_of
from stepwell.definition.code.context_names import may_be_workflows
from stepwell.definition.code.modules import Function, makes_coroutine, own_nodes

COROUTINES = frozenset({"asyncio.sleep", "asyncio.wait", "asyncio.wait_for"})  # they do nothing unless awaited
_FUTURES = frozenset({"asyncio.create_task", "asyncio.ensure_future", "asyncio.gather", "ctx.start"})
_STORES = frozenset({"child", "continue_as", "send", "step"})
_OF_OPERATIONS = frozenset({"__await__", "cancel", "close", "done", "send", "throw", "url"})  # no result has these


def used_unawaited(function: Function, called: Called, meaning: Callable[[ast.expr], str]) -> Iterator[Wrong]:
    """Yields each operation, and coroutine of the folder, that is used before it is awaited, or kept in vain.

    `called`: returns the function of a name. `meaning`: returns the full name of what an expression is.
    """
    if not may_be_workflows(function):
        return
    nodes = list(ast.walk(function.node))
    variables = dict(kept(nodes))
    told = {id(made): made for made in needed(nodes, variables)}
    for made in told.values():
        if (name := operation_of(made)) in AWAITED:
            what = f"the operation ctx.{name}(…) is not awaited, and has no result"
            yield made, "never_awaited", what, f"await ctx.{name}(…)"
        elif isinstance(made, ast.Call) and makes_coroutine(called(made.func)):
            what = f"{ast.unparse(made.func)}(…)"
            yield made, "never_awaited", f"{what} is not awaited, and has no result", f"await {what}"
    for node in nodes:
        of = node.value if isinstance(node, ast.Subscript) else None
        task = variables.get(of.id) if isinstance(of, ast.Name) else of
        if isinstance(task, ast.Call) and (what := _future(task, meaning)):
            yield node, "never_awaited", f"{what}(…) is not awaited, and has no items", f"await {what}(…)"


def needed(nodes: Sequence[ast.AST], variables: Mapping[str, ast.expr]) -> Iterator[ast.expr]:
    """Yields the expressions whose values are needed, and those that a variable keeps for nothing else."""
    values = [one for node in nodes for one in values_in(node)]
    yield from values
    used = {id(one) for one in values}
    failing = {id(one) for node in nodes for one in _parts_in(node)}
    for name, made in variables.items():
        read = [id(one) for one in _loads(nodes, name)]
        if used.issuperset(read) or not failing.isdisjoint(read):
            yield made
    yield from (variables.get(one.id, one) if isinstance(one, ast.Name) else one for one in _stored(nodes))


def returned_unawaited(
    function: Function, is_async: Callable[[ast.expr], bool], meaning: Callable[[ast.expr], str]
) -> Iterator[Wrong]:
    """Yields what a workflow returns that it is to await. `is_async`: whether a name is a coroutine function's."""
    if function.mark != "workflow":
        return
    nodes = list(ast.walk(function.node))
    changed = {name for one in nodes if (name := _changed_item(one))}  # each operation may give way to its result
    several = {name: made for name, made in kept(nodes) if _operation_in(made) and name not in changed}
    for node in own_nodes(function.node):
        made = node.value if isinstance(node, ast.Return) else None
        made = several.get(made.id) if isinstance(made, ast.Name) else made
        if made is not None and (name := _operation_in(made)):
            message = f"operations of ctx.{name}(…) are returned in a collection, and not awaited"
            yield node, "never_awaited", message, "await them: ctx.all(*[…]) gives a list of their results"
        elif isinstance(made, ast.Call) and (
            operation_of(made) in AWAITED or is_async(made.func) or _future(made, meaning)
        ):
            called = f"{ast.unparse(made.func)}(…)"
            yield node, "never_awaited", f"{called} is returned, and not awaited", f"return await {called}"


def _changed_item(node: ast.AST) -> str:
    """The variable of which the node replaces an item; "" for any other node."""
    match node:
        case ast.Subscript(value=ast.Name(name), ctx=ast.Store()):
            return name
    return ""


def _future(made: ast.Call, meaning: Callable[[ast.expr], str]) -> str:
    """The name of what makes a task, or a future of several; "" for anything else."""
    full = "ctx.start" if operation_of(made) == "start" else meaning(made.func)
    return full if full in _FUTURES else ""


def _stored(nodes: Iterable[ast.AST]) -> Iterator[ast.expr]:
    """Yields what is stored: the arguments of steps and children, the payloads of events, items of `ctx.state`."""
    for node in nodes:
        match node:
            case ast.Call(args=[_, *args], keywords=keywords) if operation_of(node) in _STORES:
                yield from args
                yield from (one.value for one in keywords)
            case ast.Assign(targets=[ast.Subscript(value=ast.Attribute(ast.Name("ctx"), "state"))], value=value):
                yield value
            case ast.For(iter=ast.Call() as value) | ast.AsyncFor(iter=ast.Call() as value):
                if not operation_of(value):  # an operation that is written there is told as `bad_await`
                    yield value


def _operation_in(value: ast.expr) -> str:
    """The name of an operation that a collection is written with; "" if there is none."""
    match value:
        case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Dict(values=parts):
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
