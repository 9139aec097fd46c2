"""Checks the code of a folder without running it: what a replay would do differently, and calls that do not fit."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from stepwell.definition.code.at_import import AtImport
from stepwell.definition.code.choices import Choice, choices
from stepwell.definition.code.conditions import wrong_conditions
from stepwell.definition.code.context_attributes import wrong_attributes
from stepwell.definition.code.context_calls import Wrong, wrong_calls
from stepwell.definition.code.context_forms import operation_of, wrong_forms
from stepwell.definition.code.context_names import has_another, lacking_in_context
from stepwell.definition.code.endless import endless_loops
from stepwell.definition.code.full_names import FullNames
from stepwell.definition.code.given_operations import wrong_operands
from stepwell.definition.code.handlers import wrong_handlers
from stepwell.definition.code.locks import wrong_locks
from stepwell.definition.code.modules import Code, Def, Function, is_property, makes_coroutine, problem_at
from stepwell.definition.code.objects import variables_of
from stepwell.definition.code.own_context import gives_context, misplaced_contexts
from stepwell.definition.code.own_steps import asked_in_a_step, asked_of, given_by_position, unawaited_in_a_step
from stepwell.definition.code.replayed import is_run_as_step, reader_of, replayed
from stepwell.definition.code.results import wrong_results
from stepwell.definition.code.set_loops import loops_over_sets
from stepwell.definition.code.shared_names import shared_names
from stepwell.definition.code.signatures import misfit
from stepwell.definition.code.unawaited import COROUTINES, returned_unawaited, used_unawaited
from stepwell.definition.context_options import OPTIONS
from stepwell.definition.kept_outside import Inner, changes, is_container, is_object, lost_of, rebound, shared_defaults
from stepwell.definition.nondeterminism import source_of
from stepwell.definition.text import STEP_OPTIONS, closest, option_hint
from stepwell.errors import Problem

_AT_ONCE = frozenset({"start", "lock", "limit"})  # they are no operations that would be awaited themselves
_CALLS_WHAT_IT_IS_GIVEN = re.compile(r"map|filter|sorted|min|max|(functools|itertools)\.\w+")


def check_code(code: Code) -> list[Problem]:
    """Returns the problems of all durable functions and of what they call, and of steps that ask as functions do."""
    found: list[Problem] = []
    seen: set[str] = set()
    names = FullNames(code)
    for function in code.functions():
        if function.mark == "workflow":
            found += _Body(names, function, seen).problems()
            found += shared_names(function, code)
        elif function.mark == "step":
            found += (*asked_in_a_step(function), *unawaited_in_a_step(function, names))
        if function.mark in {"workflow", "step"}:
            found += given_by_position(function)
    return sorted(found, key=lambda problem: (problem.file, problem.line))


class _Body:
    """One function that a replay runs again."""

    def __init__(self, names: FullNames, function: Function, seen: set[str]) -> None:
        self._names, self._function, self._seen = names, function, seen
        self._imported = AtImport(names)
        self._nodes = replayed(function.node)
        self._parameters = list(ast.walk(function.node.args))
        self._told: set[int] = set()
        self._has_another = has_another(function.node)
        self._nested = {one.name for one in ast.walk(function.node) if isinstance(one, Def) and one != function.node}
        self._variables = variables_of(function)
        self._ambiguous = self._nested & self._variables.keys()
        self._variables |= dict.fromkeys(self._nested)
        self._locals = self._variables.keys()
        problems = [
            name for name, value in self._variables.items() if isinstance(value, ast.Call) and self._is_source(value)
        ]
        self._variables |= dict.fromkeys(problems)  # what makes it is a problem: what is done with it is no further one

    def _is_source(self, made: ast.Call) -> bool:
        meant = self._meaning(made.func)
        return source_of(meant, bool(made.args)) is not None and not self._names.is_own(meant)

    def problems(self) -> Iterator[Problem]:
        """Each function is gone through once, whoever calls it."""
        if _place(self._function) in self._seen:
            return
        self._seen.add(_place(self._function))
        for node in self._nodes:
            if isinstance(node, ast.Call):
                yield from self._of_call(node)
            elif isinstance(node, ast.Attribute | ast.Name):
                yield from self._of_name(node)
        for node in loops_over_sets((*self._parameters, *self._nodes), self._value_elsewhere):
            yield self._not_the_same("set", f"{ast.unparse(node)[:40]} has no order", "go through sorted(…)", node)
        for read, hint in lacking_in_context(self._function):
            yield self._problem("unknown_operation", f"ctx has no {read.attr!r}", hint, read)
        for wrong, code, message, hint in self._wrong():
            yield self._problem(code, message, hint, wrong)
        yield from self._never_awaited()
        yield from self._at_import()
        yield from self._changed_outside()

    def _wrong(self) -> Iterator[Wrong]:
        yield from wrong_calls(self._function, self._given)
        yield from wrong_forms(self._function)
        yield from wrong_attributes(self._function)
        yield from wrong_conditions(self._function, self._given)
        yield from wrong_handlers(self._function, self._given)
        yield from wrong_results(self._function, self._called)
        yield from wrong_operands(self._function, self._given, self._meaning)
        yield from wrong_locks(self._function, self._meaning)
        yield from endless_loops(self._nodes)
        yield from misplaced_contexts(self._function, self._given)
        yield from used_unawaited(self._function, self._given, self._meaning)
        yield from returned_unawaited(self._function, self._is_async, self._meaning)

    def _of_name(self, node: ast.Attribute | ast.Name) -> Iterator[Problem]:
        """What is read without a call: the environment, and properties."""
        if not isinstance(node.ctx, ast.Load) or id(node) in self._told:
            return
        if self._meaning(node) == "os.environ" and not (isinstance(node, ast.Name) and node.id in self._locals):
            yield self._not_the_same("environment", "os.environ reads the environment", "pass it as input", node)
        elif isinstance(node, ast.Attribute) and (read := self._called(node)) and is_property(read.node):
            yield from _Body(self._names, read, self._seen).problems()

    def _value_elsewhere(self, node: ast.expr) -> ast.expr | None:
        """What a module of the folder gives to this name, if it is no variable."""
        found = self._names.value(self._function.module, node) if self._meant(node) else None
        return found[1] if found is not None else None

    def _never_awaited(self) -> Iterator[Problem]:
        for node in self._nodes:
            if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Call):
                continue
            operation = "" if self._has_another else asked_of(node.value)
            if operation_of(node.value) == "continue_as":
                what = "ctx.continue_as(…) is made, and not returned: the function goes on"
                yield self._problem("never_returned", what, "return it", node)
                continue
            if operation and operation not in _AT_ONCE:
                what, hint = f"the operation ctx.{operation}(…)", "await it, or hold it with ctx.start"
            elif self._is_async(node.value.func):
                what, hint = f"{ast.unparse(node.value.func)}(…)", "await it, or begin it with ctx.start"
            else:
                continue
            yield self._problem("never_awaited", f"{what} is made, and neither awaited nor started", hint, node)

    def _is_async(self, target: ast.expr) -> bool:
        """Whether it names a coroutine function: of the folder and no step, of the function's own, or of asyncio."""
        if self._meaning(target) in COROUTINES:
            return True
        called = self._called(target)
        return makes_coroutine(self._inner(target) or (called.node if called and not called.mark else None))

    def _at_import(self) -> Iterator[Problem]:
        """What each process makes anew as it imports the module."""
        module = self._function.module
        for value, name, source in self._imported.of_defaults(module, self._function.node):
            yield self._not_the_same(source.kind, f"{name} {source.does} once for each process", source.hint, value)
        for node in self._nodes:
            if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load) and self._meant(node):
                made = self._names.value(module, node)
                if made is not None and (kind := self._imported.awaited(*made)):
                    what = f"{ast.unparse(node)}, an {kind} of {made[0].name}, is shared by the runs of one process"
                    yield self._not_the_same("module", what, "make it in the function", node)
                elif made is not None and (found := self._imported.source_in(*made)):
                    what = f"{found[0]} {found[1].does} as {made[0].name} is imported, for each process anew"
                    yield self._not_the_same(found[1].kind, what, found[1].hint, node)

    def _changed_outside(self) -> Iterator[Problem]:
        """What is kept in the module, and what only one process gets to see."""
        values = self._function.module.values
        kept = {name for name, value in values.items() if is_container(value)} - self._locals
        for name, node in (*rebound(self._nodes, ast.Global), *changes(self._nodes, kept)):
            what = f"{name} is the module's: each process, and each replay, has another"
            yield self._not_the_same("module", what, "keep it in the function, or in ctx.state", node)
        for name, node in changes(self._nodes, shared_defaults(self._function.node)):
            what = f"the default of {name} is changed: all runs of a process share it"
            yield self._not_the_same("module", what, f"write {name}=None, and make it in the function", node)
        objects = {name for name, value in self._variables.items() if is_object(value)}
        for inner, code, does, hint in self._of_no_replay():
            for name, node in lost_of(inner, self._locals, objects):
                yield self._problem(code, does.format(name), hint, node)

    def _of_no_replay(self) -> Iterator[tuple[Inner, str, str, str]]:
        """The functions in it that a replay does not call, or that change nothing."""
        for node in ast.walk(self._function.node):
            if isinstance(node, ast.Call) and asked_of(node) == "run" and node.args:
                given = node.args[0] if isinstance(node.args[0], ast.Lambda) else self._inner(node.args[0])
                if given is not None:
                    does, hint = (
                        "what ctx.run calls changes {} of the function",
                        "return it: a replay does not call this again",
                    )
                    yield given, "lost_in_branch", does, hint
            if isinstance(node, Def) and (reader := reader_of(node)):
                does = f"a {reader} changes {{}} of the function"
                yield node, "read_only_query", does, "change it in the function, or in an update"

    def _inner(self, node: ast.expr) -> Def | None:
        """The function of this name within the function."""
        found = (
            one for one in ast.walk(self._function.node) if isinstance(one, Def) and one is not self._function.node
        )
        return next((one for one in found if isinstance(node, ast.Name) and one.name == node.id), None)

    def _given(self, node: ast.expr) -> Def | ast.Lambda | None:
        """The function that an operation is given; None for a name that is a variable as well."""
        if isinstance(node, ast.Name) and node.id in self._ambiguous:
            return None
        called = self._called(node)
        return node if isinstance(node, ast.Lambda) else self._inner(node) or (called.node if called else None)

    def _meant(self, node: ast.expr) -> bool:
        root = node
        while isinstance(root, ast.Attribute):
            root = root.value
        return isinstance(root, ast.Name) and root.id not in self._locals

    def _not_the_same(self, kind: str, what: str, hint: str, node: ast.AST) -> Problem:
        return self._problem("not_deterministic", f"{kind}: {what}", hint, node)

    def _problem(self, code: str, message: str, hint: str, node: ast.AST) -> Problem:
        return problem_at(node, self._function.module.file, code, message, hint)

    def _of_call(self, node: ast.Call) -> Iterator[Problem]:
        operation = "" if self._has_another else asked_of(node)
        if operation in {"step", "map"} and node.args:
            yield from self._of_target(node, node.args[0], operation)
        elif operation == "child" and node.args:
            yield from self._of_child(node, node.args[0])
        elif operation == "run" and node.args and isinstance(made := node.args[0], ast.Call):
            if (called := self._called(made.func)) is not None and called.mark == "step":
                yield from self._of_called(called, made)
        elif not operation:
            yield from self._of_plain_call(node)
            for one in choices(Choice(self._function.module, node.func, self._variables), self._given_to):
                yield from self._of_choice(one, node)

    def _of_plain_call(self, node: ast.Call) -> Iterator[Problem]:
        meant = self._meaning(node.func)
        is_known = bool(meant) and not self._names.is_own(meant)
        name = meant if is_known else f"….{node.func.attr}" if isinstance(node.func, ast.Attribute) else ""
        source = source_of(name, bool(node.args))
        if source is not None and id(node) not in self._told:
            self._told |= {id(one) for one in ast.walk(node.func)}  # `Thread(…).start()` is one problem
            shown = name.replace("()", "")
            yield self._not_the_same(source.kind, f"{shown} {source.does}", source.hint, node)
        yield from self._of_references(node)
        yield from self._of_called(self._called(node.func) if id(node) not in self._told else None, node)
        for name in ("__call__",) if meant.endswith("()") else ("__init__", "__post_init__"):
            yield from self._of_further(self._names.function(f"{meant}.{name}"))

    def _of_choice(self, one: Choice, node: ast.Call) -> Iterator[Problem]:
        """One of the functions that a call may call."""
        name = self._names.of(one.module, one.value, one.variables)
        source = None if not name or self._names.is_own(name) else source_of(name, bool(node.args))
        if isinstance(one.value, ast.Lambda) and not any(one.value is there for there in self._nodes):
            name, source = self._imported.source_in(one.module, one.value.body) or (name, None)
        if source is not None:
            self._told |= {id(part) for part in ast.walk(one.value)}
            yield self._not_the_same(source.kind, f"{name} {source.does}", source.hint, node)
        yield from self._of_called(self._names.function(name), node)

    def _given_to(self, one: Choice) -> Choice | None:
        """What a variable of the function, or a name of a module, was given."""
        if isinstance(one.value, ast.Name) and one.value.id in one.variables:
            name, value = one.value.id, one.variables[one.value.id]
            others = {key: given for key, given in one.variables.items() if key != name}
            return None if value is None else Choice(one.module, value, others)
        made = self._names.value(one.module, one.value)
        return None if made is None else Choice(*made, {})

    def _of_called(self, called: Function | None, node: ast.Call) -> Iterator[Problem]:
        if called is not None and (called.mark == "step" or self._belongs_in_a_step(called)):
            message = f"{called.name}(…) calls a step as a function: each replay runs it again"
            yield self._problem("step_called", message, f"await ctx.step({called.name}, …)", node)
        elif called is not None:
            yield from self._of_further(called)

    def _belongs_in_a_step(self, called: Function) -> bool:
        """Tells whether the module runs it as a step too, and a replay of it would do something differently."""
        if called.mark or not is_run_as_step(self._names, self._function.module, called):
            return False
        return any(_Body(self._names, called, {*self._seen}).problems())

    def _of_further(self, called: Function | None) -> Iterator[Problem]:
        if called is not None and not called.mark and _place(called) not in self._seen:
            yield from _Body(self._names, called, self._seen).problems()

    def _of_references(self, node: ast.Call) -> Iterator[Problem]:
        """What it is given to call, and what the class of the folder that it makes an object of calls."""
        module, name = self._function.module, self._meaning(node.func)
        given_all = [*node.args, *(one.value for one in node.keywords)]
        is_operation = any(asked_of(ast.Call(one, [], [])) for one in given_all)  # `partial(ctx.step, charge)`
        for given in () if is_operation else given_all:
            if not isinstance(given, ast.Name | ast.Attribute):
                continue
            if found := self._imported.named(module, given, has_arguments=True, variables=self._variables):
                yield self._not_the_same(found[1].kind, f"{found[0]} {found[1].does}", found[1].hint, given)
            if _CALLS_WHAT_IT_IS_GIVEN.fullmatch(name):
                yield from self._of_further(self._called(given))
        if (owner := self._names.owner(name)) is not None and (found := self._imported.of_class(*owner)):
            what = f"{found[0]} {found[1].does}, for each {owner[1].name} that gives no other value"
            yield self._not_the_same(found[1].kind, what, found[1].hint, node)
        value = self._names.value(module, node.func) if self._meant(node.func) else None
        if value and isinstance(value[1], ast.Lambda) and (found := self._imported.source_in(value[0], value[1].body)):
            yield self._not_the_same(found[1].kind, f"{found[0]} {found[1].does}", found[1].hint, node)

    def _of_target(self, node: ast.Call, target: ast.expr, operation: str) -> Iterator[Problem]:
        function = self._called(target)
        is_own = isinstance(target, ast.Lambda | ast.Call | ast.Constant) or (
            (isinstance(target, ast.Name) and target.id in self._nested) or (function is not None and function.owner)
        )
        if is_own and operation == "map":  # it gives a coroutine for each item
            made = self._called(target.func) if isinstance(target, ast.Call) else None
            if made is None or not (made.mark == "step" or makes_coroutine(made.node)):
                return
        if is_own:
            self._told.add(id(target))
            what = f"{ast.unparse(target)[:40]} is no function at the top of a module"
            yield self._problem("bad_step", what, self._instead(target, operation), target)
        elif function is None:
            yield from self._of_unknown(target)
        elif function.mark == "workflow":
            yield self._problem("bad_step", f"{function.name} is a workflow", "run it with ctx.child", target)
        elif not function.mark and (asked := next(asked_in_a_step(function), None)) is not None:
            hint = f"await {function.name}(ctx, …) itself; for each item, map lambda item: {function.name}(ctx, item)"
            yield self._problem("nested_step", asked.message, hint, target)
        elif operation == "step":
            yield from self._of_arguments(node, function, STEP_OPTIONS)

    def _instead(self, target: ast.expr, operation: str) -> str:
        """What to give an operation instead of a function's name, or of what it returned."""
        meant = target.func if isinstance(target, ast.Call) else target
        name = str(meant.value) if isinstance(meant, ast.Constant) else meant.id if isinstance(meant, ast.Name) else ""
        is_known = name in self._function.module.functions or (name and self._called(meant) is not None)
        if is_known and not isinstance(target, ast.Name):
            return f"give the function itself: ctx.{operation}({name}, …)"
        return "a worker finds a step by its module and name"

    def _of_child(self, node: ast.Call, target: ast.expr) -> Iterator[Problem]:
        function = self._called(target)
        if function is not None and function.mark != "workflow":
            yield self._problem("bad_value", f"{function.name} is no workflow", "mark it with @workflow", target)
        elif isinstance(target, ast.Call) and (made := self._called(target.func)) and made.mark == "workflow":
            what = f"{ast.unparse(target)[:40]} is no workflow"
            yield self._problem("bad_value", what, f"give the function itself: ctx.child({made.name}, …)", target)
        elif function is not None:
            yield from self._of_arguments(node, function, OPTIONS["child"])

    def _of_arguments(self, node: ast.Call, function: Function, options: tuple[str, ...]) -> Iterator[Problem]:
        given, names = node.args[1:], [one.arg for one in node.keywords]
        if None in names or any(isinstance(one, ast.Starred) for one in given) or gives_context(node):
            return  # what these hold is known only when it runs; a `ctx` has a problem of its own
        named = [name for name in names if name is not None and name not in options]
        if why := misfit(function.node, len(given), named):
            meant = next((close for name in named if (close := closest(name, options)).startswith("did")), "")
            taken = next((name for name in names if name in options and f"{name!r}" in why), "")
            hint = meant or (
                option_hint(taken) if taken else f"it is {function.name}({ast.unparse(function.node.args)})"
            )
            yield self._problem("bad_arguments", why, hint, node)

    def _of_unknown(self, target: ast.expr) -> Iterator[Problem]:
        """A name that stands for nothing, in this module or in another one of the folder."""
        module = self._function.module
        if isinstance(target, ast.Name) and target.id not in self._locals and not module.has(target.id):
            hint = closest(target.id, module.functions)
            yield self._problem("unknown_function", f"there is no function {target.id!r}", hint, target)
        if (lacking := self._names.lacks(self._meaning(target))) is not None:
            other, name = lacking
            hint = closest(name, other.functions)
            yield self._problem("unknown_function", f"there is no function {name!r} in {other.name}", hint, target)

    def _meaning(self, node: ast.expr) -> str:
        return self._names.of(self._function.module, node, self._variables)

    def _called(self, node: ast.expr) -> Function | None:
        return self._names.function(self._meaning(node))


def _place(function: Function) -> str:
    return f"{function.module.name}.{function.name}"
