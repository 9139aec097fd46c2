"""Handlers of queries and updates that never answer, or change nothing: two of one name, a variable of their own."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

from stepwell.definition.code.context_calls import Called, Wrong
from stepwell.definition.code.context_forms import AWAITED, operation_of
from stepwell.definition.code.context_names import may_be_workflows
from stepwell.definition.code.literals import NO_LITERAL, literal
from stepwell.definition.code.modules import Def, Function, makes_coroutine, own_nodes
from stepwell.definition.code.signatures import CONTEXT

_WAITS = (ast.Await, ast.AsyncFor, ast.AsyncWith, ast.Return, ast.Raise, ast.Break, ast.Continue, ast.Yield)
_READERS = frozenset({"query", "validator"})
_Registered = tuple[str, str, ast.AST, Def | None]  # the kind, the name, the place, and the function if it is there


def wrong_handlers(function: Function, called: Called) -> Iterator[Wrong]:
    """Yields the handlers, and functions within it, that cannot do what they are for. `called`: those of a name."""
    if not may_be_workflows(function):
        return
    yield from _replaced(function.node)
    apart = set(_run_apart(function.node))
    for node in ast.walk(function.node):
        for kind, name, _, handler in _registered(node):
            if kind == "query" and handler is not None:
                yield from _of_query(name, handler)
            elif kind == "update" and handler is not None:
                yield from _of_update(name, handler, called)
        if isinstance(node, Def):
            inner = (one for one in own_nodes(node) if isinstance(one, Def))
            for one in (one for one in inner if one.name not in apart and not _reads(one)):
                yield from _own_variables(node, one)


def _run_apart(function: Def) -> Iterator[str]:
    """The functions that `ctx.run` calls: a variable that they change is lost."""
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and operation_of(node) == "run":
            yield from (one.id for one in node.args[:1] if isinstance(one, ast.Name))


def _reads(handler: Def) -> bool:
    """Tells whether it is a query, or a validator."""
    marks = (one.func if isinstance(one, ast.Call) else one for one in handler.decorator_list)
    return any(isinstance(one, ast.Attribute) and one.attr in _READERS for one in marks)


def _replaced(function: Def) -> Iterator[Wrong]:
    """The handlers that another one of the same name replaces before anybody can have called them."""
    for node in ast.walk(function):
        for block in _blocks(node):
            before: dict[tuple[str, str], ast.AST] = {}
            for statement in block:
                if any(isinstance(one, _WAITS) for one in _own(statement)):
                    before.clear()
                for kind, name, place, _ in _registered(statement):
                    if (first := before.get((kind, name))) is not None:
                        line = getattr(first, "lineno", 0)
                        message = f"the {kind} {name!r} of line {line} is replaced by this one, and never called"
                        yield place, "duplicate_handler", message, "give one of them another name"
                    before[kind, name] = place


def _blocks(node: ast.AST) -> Iterator[Sequence[ast.stmt]]:
    for part in ("body", "orelse", "finalbody"):
        block = getattr(node, part, None)
        if isinstance(block, list):
            yield block


def _own(statement: ast.stmt) -> Iterator[ast.AST]:
    """The nodes that are executed where the statement stands: not those of a function that it defines."""
    if isinstance(statement, Def):
        return
    left: list[ast.AST] = [statement]
    while left:
        node = left.pop()
        yield node
        left += () if isinstance(node, Def | ast.Lambda) else ast.iter_child_nodes(node)


def _registered(node: ast.AST) -> Iterator[_Registered]:
    """What a statement registers: `@ctx.query("name")` over a function, or ctx.query("name", function)."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            for mark in node.decorator_list:
                if found := _named(mark, 1):
                    yield *found, mark, node if len(node.decorator_list) == 1 else None
        case ast.Expr(value=call) | ast.Assign(value=call):
            if found := _named(call, 2):
                yield *found, call, None


def _named(node: ast.expr, arguments: int) -> tuple[str, str] | None:
    match node:
        case ast.Call(
            func=ast.Attribute(value=ast.Name(context), attr="query" | "update" as kind),
            args=[ast.Constant(str(name)), *_] as given,
        ) if context == CONTEXT and len(given) == arguments:
            return kind, name
    return None


def _of_query(name: str, handler: Def) -> Iterator[Wrong]:
    args = handler.args
    required = [one.arg for one in (*args.posonlyargs, *args.args)][: -len(args.defaults) or None]
    required += [one.arg for one, value in zip(args.kwonlyargs, args.kw_defaults, strict=True) if value is None]
    if isinstance(handler, ast.AsyncFunctionDef):
        message, hint = f"query {name} takes a plain function, not the async {handler.name}", f"def {handler.name}():"
        yield handler, "bad_query_handler", message, hint
    elif required:
        message = f"the handler of query {name} has the parameter {required[0]}, and gets none"
        yield handler, "bad_query_handler", message, "read the variables of the function; an update takes an input"


def _of_update(name: str, handler: Def, called: Called) -> Iterator[Wrong]:
    for node in own_nodes(handler):
        made = node.value if isinstance(node, ast.Return) else None
        if isinstance(made, ast.Call) and (operation_of(made) in AWAITED or makes_coroutine(called(made.func))):
            what = f"{ast.unparse(made.func)}(…)"
            message = f"the handler of update {name} returns {what}, and does not await it"
            yield node, "never_awaited", message, f"async def {handler.name}(…), and return await {what}"
    for one in ast.walk(handler.args):
        if isinstance(one, ast.arg) and one.arg == CONTEXT:
            message = f"the handler of update {name} has a parameter ctx, which is None"
            yield one, "bad_update_handler", message, "leave it out: the handler has the ctx of the function around it"


def _own_variables(function: Def, inner: Def) -> Iterator[Wrong]:
    """What a function within another one gives to variables of its own, instead of those around it."""
    nodes = list(ast.walk(inner))
    declared = {one for node in nodes if isinstance(node, ast.Nonlocal | ast.Global) for one in node.names}
    declared |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    read = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    within = {id(node) for node in nodes}
    around = [node for node in ast.walk(function) if id(node) not in within]
    for node in own_nodes(inner):
        match node:
            case ast.Assign(targets=[ast.Name(name)]) | ast.AnnAssign(target=ast.Name(name), value=ast.expr()) if (
                name not in read
            ):
                is_meant = _is_constant_and_read(function, around, name)
            case ast.AugAssign(target=ast.Name(name)) if _stores(nodes, name) == 1:  # it raises UnboundLocalError
                is_meant = _stores(own_nodes(function), name) > 0
            case _:
                continue
        if is_meant and name not in declared:
            message = f"{inner.name} gives a value to a variable {name} of its own, not to that of the function"
            yield node, "not_nonlocal", message, f"write `nonlocal {name}` as its first line"


def _stores(nodes: Iterable[ast.AST], name: str) -> int:
    return sum(isinstance(one, ast.Name) and one.id == name and isinstance(one.ctx, ast.Store) for one in nodes)


def _is_constant_and_read(function: Def, around: Sequence[ast.AST], name: str) -> bool:
    """Tells whether the function reads a variable that it gives nothing but literals itself."""
    values = [
        node.value
        for node in own_nodes(function)
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name) and target.id == name
    ]
    is_read = any(isinstance(one, ast.Name) and one.id == name and isinstance(one.ctx, ast.Load) for one in around)
    is_written = bool(values) and all(one is not None and literal(one) is not NO_LITERAL for one in values)
    return is_read and is_written and len(values) == _stores(around, name)
