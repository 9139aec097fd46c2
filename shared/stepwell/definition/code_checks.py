"""Checks the code of a folder without running it: what a replay would do differently, and calls that do not fit."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from stepwell.definition.code import Code, Def, Function
from stepwell.definition.nondeterminism import source_of
from stepwell.definition.set_loops import loops_over_sets
from stepwell.definition.signatures import CONTEXT, misfit
from stepwell.definition.text import closest
from stepwell.errors import Problem

_STEP_OPTIONS = ("name", "retry", "timeout", "at_most_once", "pool")
_CHILD_OPTIONS = ("name", "timeout", "type", "detached")
_OPERATIONS = frozenset({
    "step", "run", "sleep", "timer", "event", "approval", "callback", "child", "all", "first", "map", "transact",
    "lock", "until", "start",
})  # fmt: skip


def check_code(code: Code) -> list[Problem]:
    """Returns the problems of all durable functions and of what they call, and of steps that ask as functions do."""
    found: list[Problem] = []
    seen: set[str] = set()
    for function in code.functions():
        if function.mark == "workflow":
            found += _Body(code, function, seen).problems()
        elif function.mark == "step":
            found += _asked_in_a_step(function)
    return sorted(found, key=lambda problem: (problem.file, problem.line))


def _asked_in_a_step(function: Function) -> Iterator[Problem]:
    for node in ast.walk(function.node):
        if isinstance(node, ast.Call) and (operation := _operation(node)):
            message = f"the step {function.name} calls ctx.{operation}, which only a workflow has"
            hint = "call the function itself, or do this in the workflow"
            yield _problem("nested_step", message, hint, function, node)


def _operation(node: ast.Call) -> str:
    """The operation of `ctx.step(…)` and the like."""
    match node.func:
        case ast.Attribute(value=ast.Name(name), attr=operation) if name == CONTEXT and operation in _OPERATIONS:
            return operation
        case _:
            return ""


class _Body:
    """One function that a replay runs again."""

    def __init__(self, code: Code, function: Function, seen: set[str]) -> None:
        self._code, self._function, self._seen = code, function, seen
        self._nodes = list(_replayed(function.node))
        self._told: set[int] = set()
        self._nested = {one.name for one in ast.walk(function.node) if isinstance(one, Def) and one != function.node}
        stored = (
            one for one in ast.walk(function.node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)
        )
        self._locals = {one.id for one in stored} | self._nested
        self._locals |= {one.arg for one in ast.walk(function.node) if isinstance(one, ast.arg)}

    def problems(self) -> Iterator[Problem]:
        """Each function is gone through once, whoever calls it."""
        place = f"{self._function.module.name}.{self._function.name}"
        if place in self._seen:
            return
        self._seen.add(place)
        for node in self._nodes:
            if isinstance(node, ast.Call):
                yield from self._of_call(node)
            elif isinstance(node, ast.Attribute) and self._meaning(node) == "os.environ":
                yield self._not_the_same("environment", "os.environ reads the environment", "pass it as input", node)
        for node in loops_over_sets(self._nodes):
            yield self._not_the_same("set", f"{ast.unparse(node)[:40]} has no order", "go through sorted(…)", node)

    def _not_the_same(self, kind: str, what: str, hint: str, node: ast.AST) -> Problem:
        return self._problem("not_deterministic", f"{kind}: {what}", hint, node)

    def _problem(self, code: str, message: str, hint: str, node: ast.AST) -> Problem:
        return _problem(code, message, hint, self._function, node)

    def _of_call(self, node: ast.Call) -> Iterator[Problem]:
        operation = _operation(node)
        if operation in {"step", "map"} and node.args:
            yield from self._of_target(node, node.args[0], operation)
        elif operation == "child" and node.args:
            yield from self._of_child(node, node.args[0])
        elif not operation:
            yield from self._of_plain_call(node)

    def _of_plain_call(self, node: ast.Call) -> Iterator[Problem]:
        name = self._meaning(node.func) or (f"….{node.func.attr}" if isinstance(node.func, ast.Attribute) else "")
        source = source_of(name, bool(node.args))
        if source is not None and id(node) not in self._told:
            self._told |= {id(one) for one in ast.walk(node.func)}  # `Thread(…).start()` is one problem
            yield self._not_the_same(source.kind, f"{name} {source.does}", source.hint, node)
        called = self._called(node.func)
        if called is not None and called.mark == "step":
            message = f"{called.name}(…) calls a step as a function: each replay runs it again"
            yield self._problem("step_called", message, f"await ctx.step({called.name}, …)", node)
        elif called is not None and not called.mark:
            yield from _Body(self._code, called, self._seen).problems()

    def _of_target(self, node: ast.Call, target: ast.expr, operation: str) -> Iterator[Problem]:
        function = self._called(target)
        is_own = isinstance(target, ast.Lambda | ast.Call) or (
            isinstance(target, ast.Name) and target.id in self._nested
        )
        if is_own and operation == "map":
            return  # it gives a coroutine for each item
        if is_own:
            what = f"{ast.unparse(target)[:40]} is no function at the top of a module"
            yield self._problem("bad_step", what, "a worker finds a step by its module and name", target)
        elif function is None:
            yield from self._of_unknown(target)
        elif function.mark == "workflow":
            yield self._problem("bad_step", f"{function.name} is a workflow", "run it with ctx.child", target)
        elif operation == "step":
            yield from self._of_arguments(node, function, _STEP_OPTIONS)

    def _of_child(self, node: ast.Call, target: ast.expr) -> Iterator[Problem]:
        function = self._called(target)
        if function is not None and function.mark != "workflow":
            yield self._problem("bad_value", f"{function.name} is no workflow", "mark it with @workflow", target)
        elif function is not None:
            yield from self._of_arguments(node, function, _CHILD_OPTIONS)

    def _of_arguments(self, node: ast.Call, function: Function, options: tuple[str, ...]) -> Iterator[Problem]:
        given, names = node.args[1:], [one.arg for one in node.keywords]
        if None in names or any(isinstance(one, ast.Starred) for one in given):
            return  # what these hold is known only when it runs
        named = [name for name in names if name is not None and name not in options]
        if why := misfit(function.node, len(given), named):
            meant = next((close for name in named if (close := closest(name, options)).startswith("did")), "")
            hint = meant or f"it is {function.name}({ast.unparse(function.node.args)})"
            yield self._problem("bad_arguments", why, hint, node)

    def _of_unknown(self, target: ast.expr) -> Iterator[Problem]:
        """A name that stands for nothing, in this module or in another one of the folder."""
        module = self._function.module
        if isinstance(target, ast.Name) and target.id not in self._locals and not module.has(target.id):
            hint = closest(target.id, module.functions)
            yield self._problem("unknown_function", f"there is no function {target.id!r}", hint, target)
        home, _, name = self._meaning(target).rpartition(".")
        other = self._code.modules.get(home)
        if other is not None and not other.has(name):
            hint = closest(name, other.functions)
            yield self._problem("unknown_function", f"there is no function {name!r} in {home}", hint, target)

    def _meaning(self, node: ast.expr) -> str:
        root = node
        while isinstance(root, ast.Attribute | ast.Call):
            root = root.value if isinstance(root, ast.Attribute) else root.func
        is_local = isinstance(root, ast.Name) and root.id in self._locals
        return "" if is_local else self._function.module.meaning(node)

    def _called(self, node: ast.expr) -> Function | None:
        is_local = isinstance(node, ast.Name) and node.id in self._locals
        return None if is_local else self._code.function(self._function.module, node)


def _replayed(function: Def) -> Iterator[ast.AST]:
    """The nodes of the function's body, without what it gives to `ctx.run`: that code is a step's."""
    calls = (node for node in ast.walk(function) if isinstance(node, ast.Call) and _operation(node) == "run")
    given = [node.args[0] for node in calls if node.args]
    names = {one.id for one in given if isinstance(one, ast.Name)}
    left: list[ast.AST] = [*reversed(function.body)]
    while left:
        node = left.pop()
        if any(node is one for one in given) or (isinstance(node, Def) and node.name in names):
            continue
        yield node
        left += reversed(list(ast.iter_child_nodes(node)))


def _problem(code: str, message: str, hint: str, function: Function, node: ast.AST) -> Problem:
    line, column = getattr(node, "lineno", 0), getattr(node, "col_offset", -1) + 1
    return Problem(code, message, hint=hint, file=function.module.file, line=line, column=column)
