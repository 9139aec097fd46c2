"""Finds the errors of Stepwell in its code: each with its code, what it says, and its hint.

An error is a call such as `NotFound(message, code="unknown_run", hint=…)`, `Problem(code, message, hint=…)`,
`context.add(code, message, path, hint)` or `Failure(code, category, message)`. What the code puts into a text stands as
`…`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from stepwell import errors
from stepwell.api.problems import status_of

CODE = Path(__file__).resolve().parents[2] / "shared" / "stepwell"
# What a person's machine runs: its errors have no HTTP status.
_NOT_THE_API = {"cdk", "cli", "client", "extras.py", "project.py", "settings.py", "testing"}
# Defects of Stepwell, and services that do not answer: the reader can do nothing about them but try again.
_NOT_THE_CALLERS = (errors.PortError, errors.EngineFault, errors.NewerFormat)


@dataclass(frozen=True, slots=True)
class Told:
    """One error. `place`: `file` if `check` finds it, `run` if a run fails with it, `call` if a call is refused.

    `kind`: the HTTP status of a refused call, the category of a run's error.
    """

    place: str
    code: str
    message: str
    hint: str
    kind: str


@cache
def told() -> tuple[Told, ...]:
    """Returns every error by its code; where several have one code, the one of the API that says most."""
    found: dict[tuple[str, str], Told] = {}
    for one in every():
        held = found.get((one.place, one.code))
        if held is None or _length(one) > _length(held):
            found[one.place, one.code] = one
    return tuple(found[key] for key in sorted(found))


@cache
def every() -> tuple[Told, ...]:
    """Returns every error as often as the code makes it."""
    return tuple(one for file in sorted(CODE.rglob("*.py")) for one in _in_file(file))


def _in_file(file: Path) -> Iterator[Told]:
    nodes = list(ast.walk(ast.parse(file.read_text(encoding="utf-8"))))
    calls = _calls(nodes)
    for function in nodes:
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for one in _in_function(function, calls.get(function.name, ())):
                if one.place == "call" and file.relative_to(CODE).parts[0] in _NOT_THE_API:
                    one = replace(one, kind="")  # noqa: PLW2901 - the same error, without a status
                yield one


def _length(one: Told) -> tuple[bool, int, int]:
    return bool(one.kind), len(one.hint), len(one.message)


def _calls(nodes: Iterable[ast.AST]) -> Mapping[str, Sequence[ast.Call]]:
    """The calls of a module's own functions, by the function's name."""
    calls: dict[str, list[ast.Call]] = {}
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            calls.setdefault(node.func.id, []).append(node)
    return calls


def _in_function(function: ast.FunctionDef | ast.AsyncFunctionDef, calls: Iterable[ast.Call]) -> Iterator[Told]:
    """`calls`: of this function, in its module."""
    nodes, given = list(ast.walk(function)), _given(function, calls)
    made = sorted((node for node in nodes if isinstance(node, ast.Assign)), key=lambda node: node.lineno)
    for call in nodes:
        if isinstance(call, ast.Call):
            names = given | {
                target.id: node.value
                for node in made
                for target in node.targets
                if isinstance(target, ast.Name) and node.lineno <= call.lineno  # a later one is another error's
            }
            if one := _of_call(call, names):
                yield one


def _given(function: ast.FunctionDef | ast.AsyncFunctionDef, calls: Iterable[ast.Call]) -> dict[str, ast.expr]:
    """Returns what its calls give for the parameters of a function, of each the longest text."""
    given: dict[str, ast.expr] = {}
    parameters = [one.arg for one in function.args.args]
    for call in calls:
        pairs = [*zip(parameters, call.args, strict=False), *((one.arg, one.value) for one in call.keywords)]
        for name, value in pairs:
            if name is not None and len(_text(value, {})) > len(_text(given.get(name), {})):
                given[name] = value
    return given


def _of_call(call: ast.Call, names: dict[str, ast.expr]) -> Told | None:
    keywords = {keyword.arg: keyword.value for keyword in call.keywords}
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    code, message, hint, place, kind = keywords.get("code"), call.args[:1], keywords.get("hint"), "call", ""
    if (name in {"add", "warn"} and len(call.args) > 2) or name == "Problem":
        code, place, message = call.args[0], "file", call.args[1:2]
        hint = hint or (call.args[3] if len(call.args) > 3 else None)
    elif name == "Failure" and len(call.args) > 2:
        code, place, message, kind = call.args[0], "run", call.args[2:3], _text(call.args[1], names)
        code = _constants().get(code.id, code) if isinstance(code, ast.Name) else code
    elif name in _own_kinds():
        code = code or ast.Constant(_own_kinds()[name])
    elif _refuses(name):
        kind = _status(name, code)
    else:
        return None
    if not (isinstance(code, ast.Constant) and isinstance(code.value, str) and message):
        return None
    return Told(place, code.value, _text(message[0], names), _text(hint, names), kind)


@cache
def _constants() -> dict[str, ast.Constant]:
    """Returns the texts that modules name in capitals, such as the type of an error that two of them know."""
    return {
        node.targets[0].id: node.value
        for file in CODE.rglob("*.py")
        for node in ast.parse(file.read_text(encoding="utf-8")).body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    }


@cache
def _own_kinds() -> dict[str, str]:
    """The errors that a package of `_NOT_THE_API` defines for itself, with the codes that they have by default."""
    return {
        node.name: str(line.value.value)
        for package in sorted(_NOT_THE_API)
        for file in (CODE / package).glob("errors.py")
        for node in ast.parse(file.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef)
        for line in node.body
        if isinstance(line, ast.Assign) and isinstance(line.value, ast.Constant)
        if ast.unparse(line.targets[0]) == "code"
    }


def _refuses(name: str) -> bool:
    kind = getattr(errors, name, None)
    return isinstance(kind, type) and issubclass(kind, errors.StepwellError) and not issubclass(kind, _NOT_THE_CALLERS)


def _status(name: str, code: ast.expr | None) -> str:
    kind = getattr(errors, name)
    if not (issubclass(kind, errors.UserError) and isinstance(code, ast.Constant)):
        return ""
    return str(status_of(kind("", code=str(code.value))))


def _text(node: ast.expr | None, names: dict[str, ast.expr]) -> str:
    """Returns a text as the code has it, with `…` for what it fills in; empty for a text made elsewhere."""
    if isinstance(node, ast.Name) and node.id in names:
        return _text(names[node.id], {})
    if isinstance(node, ast.Constant):
        return str(node.value or "")
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part, {}) if isinstance(part, ast.Constant) else "…" for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _text(node.left, names) + _text(node.right, names)
    if isinstance(node, ast.IfExp):
        return _text(node.body, names) or _text(node.orelse, names)
    if isinstance(node, ast.BoolOp):
        return next(filter(None, (_text(one, names) for one in node.values)), "")
    return ""
