"""Finds durable functions by scanning a folder's modules, and compiles them as definitions.

Modules are scanned without being imported, so listing and checking workflows runs no user code.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from pathlib import PurePath
from typing import TypedDict

from stepwell.definition.formats.common import Context
from stepwell.definition.graph import Durable, FanIn, Json, Node
from stepwell.definition.misfits import misfits
from stepwell.definition.text import pointer
from stepwell.errors import Problem
from stepwell.limits import CLEANUP_MAX_MS, CLEANUP_MS, DAY_MS
from stepwell.values import dataclass

_MISFITS = 5  # of one input that are told
_UNNAMED = "<module>"
_CONTEXT = "ctx"  # the parameter with which a function asks for operations
_JOINS = {"all": FanIn(), "first": FanIn("any", merge="keyed_by_branch", first_failure="fail")}

_SYNTAX_HINTS = {  # what Python says of a module, and what to do
    f"{what} outside async function": "write `async def` for the function around it"
    for what in ("'await'", "'async with'", "'async for'")
}
_WITHOUT_EFFECT = {  # keys that graphs have: of a function they do nothing, or end it as undone with nothing undone
    "retry": "give it to @step(retry=…), or to ctx.step(…, retry=…)",
    "state_schema": "check the state in the function",
    "failure_policy": "undo it in the function, in `except` or `finally`",
    "compensate_on": "undo it in the function, in `finally`; `cleanup` says how long a cancelled one may take",
}


NAMES, VALUE, WHOLE = "names", "value", "whole"


class FunctionFacts(TypedDict):
    """What callers of a function need to know. `input_schema`: None if the code does not tell.

    `needs`: the parameters that an input must have. `takes`: NAMES (each by name), VALUE (a value that is no object is
    the sole parameter's), or WHOLE (an object may be, too).
    """

    input_schema: dict[str, Json] | None
    needs: list[str]
    takes: str
    queries: list[str]
    updates: list[str]


UNKNOWN = FunctionFacts(input_schema=None, needs=[], takes=WHOLE, queries=[], updates=[])


def lacking(facts: FunctionFacts, given: Json) -> list[str]:
    """Returns the parameters that the input must have and has not."""
    if given is None:
        return facts["needs"]
    if not isinstance(given, dict):
        return facts["needs"] if facts["takes"] == NAMES else []
    return [] if facts["takes"] == WHOLE else [name for name in facts["needs"] if name not in given]


def fields_missing(facts: FunctionFacts, given: Json) -> tuple[str, list[str]]:
    """Returns the model that a sole parameter takes, and its required fields that the input has not, as far as known.

    A field may be there by its alias, which a model can make of all names: `order_id` by `orderId`. The code of a model
    may fill in others, so that this is no reason to refuse a start.
    """
    schema = facts["input_schema"] or {}
    model = str(schema.get("$ref", "")).rpartition("/")[2]
    if not model or facts["takes"] != WHOLE or not facts["needs"] or not isinstance(given, dict):
        return "", []
    within = given.get(facts["needs"][0], given)
    if not isinstance(within, dict):
        return "", []
    there = {_plain(name) for name in within}
    return model, [name for name in schema["$defs"][model].get("required", ()) if _plain(name) not in there]


def not_taken(facts: FunctionFacts, given: Json) -> list[tuple[str, str, str]]:
    """Returns the first values in the input that the function's types most likely refuse, as `misfits` has them."""
    schema, within = facts["input_schema"], given
    if schema is None or not facts["needs"] or given is None:
        return []
    if facts["takes"] == WHOLE and isinstance(given, dict):
        inner = given.get(facts["needs"][0])  # as a call by the function gives it
        within = inner if isinstance(inner, dict) else given
    elif facts["takes"] == VALUE and not isinstance(given, dict):
        within = {facts["needs"][0]: given}
    return list(islice(misfits(schema, within), _MISFITS))


def _plain(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


def parameters_of(facts: FunctionFacts) -> list[str] | None:
    """Returns the only names that the function takes from an input; None if it takes any, or the code does not tell."""
    schema = facts["input_schema"]
    if schema is None or facts["takes"] == WHOLE or schema.get("additionalProperties"):
        return None
    return list(schema["properties"])


def durable_nodes(name: str, durable: Durable) -> dict[str, Node]:
    """Returns the function's node and the joins of its concurrent operations, which become nodes while it runs."""
    joins = {join: Node(join, fan_in=fan_in, durable=durable, is_made=join != name) for join, fan_in in _JOINS.items()}
    return {name: Node(name, durable=durable), **joins}


def compile_function(context: Context, document: Mapping[str, Json]) -> dict[str, Node]:
    cleanup_ms = _cleanup_ms(context, document)
    scheme, _, path = str(document.get("function") or "").partition(":")
    module, _, name = path.rpartition(".")
    if scheme != "python" or not module or not name.isidentifier():
        hint = "write function: python:module.name"
        context.add(
            "bad_target", f"`function` does not name a function: {document.get('function')!r}", "/function", hint
        )
        return {}
    return durable_nodes(name, Durable(document["function"], cleanup_ms))


def lint_function(context: Context, document: Mapping[str, Json]) -> None:
    """Warns about keys that mean nothing for a function."""
    for key, hint in _WITHOUT_EFFECT.items():
        if key in document and document[key] != "fail":
            message = f"a durable function has no use for `{key}`"
            context.add("without_effect", message, f"/{key}", hint, severity="warning")


def _cleanup_ms(context: Context, document: Mapping[str, Json]) -> int:
    """Returns how long a cancelled function may clean up."""
    given_ms = context.duration_ms(document, "cleanup", "")
    if given_ms is not None and given_ms > CLEANUP_MAX_MS:
        context.add("bad_value", "`cleanup` is too long", "/cleanup", f"at most {CLEANUP_MAX_MS // DAY_MS} days")
    return CLEANUP_MS if given_ms is None else given_ms


@dataclass(frozen=True, slots=True)
class FoundFunction:
    """A durable function found in a module's text, as a definition."""

    document: Mapping[str, Json]
    line: int
    places: Mapping[str, tuple[int, int]]  # of the options by their JSON pointers: line and column

    def place(self, path: str) -> tuple[int, int]:
        """Returns line and column of an option, or of the nearest one around it; else the function's line."""
        while path and path not in self.places:
            path = path.rpartition("/")[0]
        return self.places.get(path, (self.line, 0))

    @property
    def version(self) -> int:
        version: int = self.document.get("version", 1)
        return version


def functions_in(text: str, file: str, module: str = "") -> tuple[list[FoundFunction], list[Problem]]:
    """Returns the functions marked `@workflow` at the top of a module, or a problem if Python cannot compile it.

    `module` is its name for an import; default: that of the file.
    """
    try:
        tree = compiled(text, file)
    except SyntaxError as error:
        message = f"Python cannot compile the module: {error.msg}"
        line, column, hint = error.lineno or 0, error.offset or 0, _SYNTAX_HINTS.get(error.msg, "")
        return [], [Problem("bad_syntax", message, hint=hint, file=file, line=line, column=column)]
    found: list[FoundFunction] = []
    problems: list[Problem] = []
    for node, mark in _marked(tree):
        options = _options(mark)
        name = node.name if options is None else str(options.get("name", node.name))
        if wrong := _misfit(node, mark, options):
            problems.append(replace(wrong, file=file, line=node.lineno, workflow=name))
            continue
        given = {key: value for key, value in (options or {}).items() if key != "name"}
        path = f"python:{module or PurePath(file).stem}.{node.name}"
        document = {"workflow": name, "function": path, **given}
        found.append(FoundFunction(document, node.lineno, dict(_places(mark))))
    return found, problems


def _misfit(
    node: ast.AsyncFunctionDef | ast.FunctionDef, mark: ast.expr, options: Mapping[str, Json] | None
) -> Problem | None:
    """Tells why a marked function cannot be a workflow; None if it can. `options`: None if they are no literals."""
    if not isinstance(node, ast.AsyncFunctionDef):
        return Problem("bad_workflow", f"@workflow needs an `async def`, but `{node.name}` is none",
                       hint=f"async def {node.name}(ctx, …)")  # fmt: skip
    if any(isinstance(one, ast.Yield) for one in _of_its_own(node)):
        message = f"the workflow {node.name} yields, and a generator cannot be a workflow"
        hint = "return what it gives at its end; let a step yield what others are to see meanwhile"
        return Problem("bad_workflow", message, hint=hint)
    if next((one.arg for one in (*node.args.posonlyargs, *node.args.args)), "") != _CONTEXT:
        return Problem("missing_ctx", f"the first parameter of the workflow {node.name} is not `ctx`",
                       hint=f"async def {node.name}(ctx, …)")  # fmt: skip
    if options is None and isinstance(mark, ast.Call) and mark.args:
        hint = f"@workflow(name={ast.unparse(mark.args[0])}), or leave it out: the name is the function's"
        return Problem("bad_workflow", f"@workflow at `{node.name}` takes its options by name", hint=hint)
    if options is None:
        message = f"an option of @workflow at `{node.name}` is not written as a literal"
        hint = "the module is scanned, not imported: write literal values, not names or calls"
        return Problem("bad_workflow", message, hint=hint)
    return None


def _of_its_own(function: ast.AsyncFunctionDef) -> Iterator[ast.AST]:
    """The nodes of its body, without those of functions in it."""
    left: list[ast.AST] = [*function.body]
    while left:
        yield (node := left.pop())
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            left += ast.iter_child_nodes(node)


def parsed(text: str, file: str = "<module>") -> ast.Module:
    """Parses a module. Who reads the same text again gets the same tree, which nobody may change.

    Raises SyntaxError for whatever Python cannot parse.
    """
    with _named(file):
        return _tree(text)


def compiled(text: str, file: str) -> ast.Module:
    """Parses a module, and compiles it: Python parses some that it cannot import, such as a `return` in an `except*`.

    Runs nothing of it. Raises SyntaxError.
    """
    with _named(file):
        tree = _tree(text)
        _try_to_compile(text)
    return tree


@lru_cache(maxsize=64)
def _tree(text: str) -> ast.Module:
    try:
        try:
            return ast.parse(text, _UNNAMED)
        except SystemError:  # CPython 3.11 miscounts its depth if garbage collection runs code in between
            return ast.parse(text, _UNNAMED)
    except SyntaxError:
        raise
    except (RecursionError, MemoryError) as error:  # the latter where the parser's own stack is full
        raise SyntaxError("it is nested too deeply") from error
    except ValueError as error:
        raise SyntaxError(str(error)) from error


@lru_cache(maxsize=64)
def _try_to_compile(text: str) -> None:
    with warnings.catch_warnings(), suppress(RecursionError, MemoryError, SystemError):  # an import may have more room
        warnings.simplefilter("ignore")  # the import warns
        compile(text, _UNNAMED, "exec", dont_inherit=True)


@contextmanager
def _named(file: str) -> Iterator[None]:
    """Python's errors tell where the text stands."""
    try:
        yield
    except SyntaxError as error:
        if error.filename == _UNNAMED:
            error.filename = file
        raise


def _marked(tree: ast.Module) -> Iterator[tuple[ast.AsyncFunctionDef | ast.FunctionDef, ast.expr]]:
    for node in tree.body:
        if isinstance(node, ast.AsyncFunctionDef | ast.FunctionDef):
            for mark in node.decorator_list:
                called = mark.func if isinstance(mark, ast.Call) else mark
                name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
                if name == "workflow":
                    yield node, mark


def _options(mark: ast.expr) -> dict[str, Json] | None:
    """Returns the options of `@workflow`; None unless all are given by name, as literals."""
    if not isinstance(mark, ast.Call):
        return {}
    if mark.args or any(one.arg is None for one in mark.keywords):
        return None
    try:
        return {one.arg: ast.literal_eval(one.value) for one in mark.keywords if one.arg is not None}
    except ValueError:
        return None


def _places(mark: ast.expr) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yields the JSON pointer of each option of `@workflow`, and of what is within it, with its line and column."""
    for option in mark.keywords if isinstance(mark, ast.Call) else ():
        path = "/workflow" if option.arg == "name" else pointer([option.arg or ""])
        yield path, (option.lineno, option.col_offset + 1)
        yield from _places_within(option.value, path)


def _places_within(value: ast.expr, path: str) -> Iterator[tuple[str, tuple[int, int]]]:
    within: list[tuple[str | int, ast.expr, ast.expr]] = []
    if isinstance(value, ast.Dict):
        within = [
            (str(key.value), key, one)
            for key, one in zip(value.keys, value.values, strict=True)
            if isinstance(key, ast.Constant)
        ]
    elif isinstance(value, ast.List | ast.Tuple):
        within = [(number, one, one) for number, one in enumerate(value.elts)]
    for name, written, inner in within:
        below = path + pointer([name])
        yield below, (written.lineno, written.col_offset + 1)
        yield from _places_within(inner, below)
