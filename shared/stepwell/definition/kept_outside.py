"""What code changes outside itself: variables of the function around it, and of the module, which a replay has not."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator
from typing import TypeAlias

Inner: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
MUTATORS = frozenset({
    "append", "appendleft", "extend", "extendleft", "insert", "pop", "popleft", "popitem", "remove", "clear", "sort",
    "reverse", "add", "discard", "update", "setdefault", "intersection_update", "difference_update",
    "symmetric_difference_update", "subtract", "rotate",
})  # fmt: skip
# functions of heapq, bisect and random that change what they are given first
CHANGERS = frozenset({
    "heappush", "heappop", "heappushpop", "heapreplace", "heapify", "insort", "insort_left", "insort_right", "shuffle",
})  # fmt: skip
_CONTAINERS = frozenset({"list", "dict", "set", "defaultdict", "deque", "Counter", "OrderedDict", "bytearray"})


def changes(nodes: Iterable[ast.AST], names: Collection[str]) -> Iterator[tuple[str, ast.AST]]:
    """Yields which of these names is changed, and where: by `append` and the like, by `heapq.heappush` and the like, or
    by an item or an attribute.

    Such names stand for objects that are there before: to give one another value is no change of theirs.
    """
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in MUTATORS:
            base: ast.expr | None = node.func.value
        elif isinstance(node, ast.Call) and node.args and _is_changer(node.func):
            base = node.args[0]
        elif isinstance(node, ast.Subscript | ast.Attribute) and not isinstance(node.ctx, ast.Load):
            base = node.value
        else:
            base = None
        if isinstance(base, ast.Name) and base.id in names:
            yield base.id, node


def _is_changer(called: ast.expr) -> bool:
    match called:
        case ast.Attribute(value=ast.Name("heapq" | "bisect" | "random"), attr=name):
            return name in CHANGERS
        case ast.Name(name):
            return name in CHANGERS and name != "shuffle"  # which may be anybody's
        case _:
            return False


def shared_defaults(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """Returns the parameters whose default is a container that each call shares, unless they get another value."""
    args = function.args
    plain = [*args.posonlyargs, *args.args]
    given = [*zip(plain[len(plain) - len(args.defaults) :], args.defaults, strict=True),
             *zip(args.kwonlyargs, args.kw_defaults, strict=True)]  # fmt: skip
    stored = {one.id for one in ast.walk(function) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
    return {one.arg for one, value in given if value is not None and is_container(value)} - stored


def rebound(nodes: Iterable[ast.AST], kind: type[ast.Global] | type[ast.Nonlocal]) -> Iterator[tuple[str, ast.AST]]:
    """Yields the names that a `global` or `nonlocal` statement takes, and that get another value."""
    several = list(nodes)
    stored = {one.id for one in several if isinstance(one, ast.Name) and not isinstance(one.ctx, ast.Load)}
    for node in several:
        if isinstance(node, kind):
            yield from ((name, node) for name in node.names if name in stored)


def lost_of(inner: Inner, around: Collection[str], objects: Collection[str] = ()) -> Iterator[tuple[str, ast.AST]]:
    """What a function within another changes of the variables around it.

    `objects`: those of classes that are no containers: a method that is called `add` may change nothing.
    """
    nodes = [node for node in ast.walk(inner) if node is not inner]
    own = {one.id for one in nodes if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
    own |= {one.arg for one in ast.walk(inner) if isinstance(one, ast.arg)}
    own -= {name for node in nodes if isinstance(node, ast.Nonlocal) for name in node.names}
    yield from rebound(nodes, ast.Nonlocal)
    found = changes(nodes, set(around) - own)
    yield from ((name, node) for name, node in found if name not in objects or not isinstance(node, ast.Call))


def is_object(value: ast.expr | None) -> bool:
    """Whether the value is an object of a class that is no container, as far as the text tells."""
    match value:
        case ast.Call(func=ast.Name(name) | ast.Attribute(attr=name)):
            return name[:1].isupper() and name not in _CONTAINERS
    return False


def is_container(value: ast.expr) -> bool:
    """Tells whether the value of a module's name can be changed in place, as far as the text tells."""
    match value:
        case ast.List() | ast.Dict() | ast.Set() | ast.ListComp() | ast.DictComp() | ast.SetComp():
            return True
        case ast.Call(func=ast.Name(name) | ast.Attribute(attr=name)):
            return name in _CONTAINERS
        case _:
            return False
