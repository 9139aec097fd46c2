"""Finds the errors of Stepwell in its code: each with its code, what it says, and its hint.

An error is a call such as `NotFound(message, code="unknown_run", hint=…)`, `Refuse(message, code, hint)`,
`problem(status, code, message, hint=…)`, `Problem(code, message, hint=…)`, `context.add(code, message, path, hint)`,
`problem_at(node, file, code, message, hint)` or `Failure(code, category, message)`; a check of code also yields
`node, code, message, hint`. What the code puts into a text stands as `…`. A class of errors has a code for those that
bring none.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from stepwell import errors
from stepwell.api.problems import status_of
from stepwell.definition.wait_schemas import SCHEMAS, written_kinds
from stepwell.engine.records import Status
from stepwell.error_hints import HINTS

CODE = Path(__file__).resolve().parents[2] / "shared" / "stepwell"
# What a person's machine runs: its errors have no HTTP status.
_NOT_THE_API = {"cdk", "cli", "client", "extras.py", "project.py", "settings.py", "testing"}
_CODE = re.compile(r"[a-z]+(_[a-z]+)*")


@dataclass(frozen=True, slots=True)
class Told:
    """One error. `place`: `file` if `check` finds it, `run` if a run fails with it, `call` if a call is refused.

    `fault`: a defect of Stepwell, or a service that does not answer. `kind`: the HTTP status of a refused call or a
    fault, the category of a run's error.
    """

    place: str
    code: str
    message: str
    hint: str
    kind: str


@cache
def tree_of(file: Path) -> ast.Module:
    """What a file of the source is parsed to."""
    return ast.parse(file.read_text(encoding="utf-8"))


@cache
def nodes_of(file: Path) -> tuple[ast.AST, ...]:
    """Its nodes, as `ast.walk` yields them: to walk takes longer than to parse, and several look at all of them."""
    return tuple(ast.walk(tree_of(file)))


@cache
def told() -> tuple[Told, ...]:
    """Returns every error by its code; where several have one code, the one of the API that says most.

    A refusal without a hint has that of its code, which callers get.
    """
    found: dict[tuple[str, str], Told] = {}
    for one in (*every(), *_of_ends(), *_of_waits()):
        held = found.get((one.place, one.code))
        if held is None or _length(one) > _length(held):
            found[one.place, one.code] = one
    for one in _of_classes():
        found.setdefault((one.place, one.code), one)
    for key, one in found.items():
        if one.place in {"call", "fault"} and not one.hint:
            found[key] = replace(one, hint=HINTS.get(one.code, ""))
    return tuple(found[key] for key in sorted(found))


@cache
def every() -> tuple[Told, ...]:
    """Returns every error as often as the code makes it."""
    return tuple(one for file in sorted(CODE.rglob("*.py")) for one in _in_file(file))


def _of_classes() -> Iterator[Told]:
    """The codes of those errors that bring none of their own."""
    for kind in _kinds():
        says = (kind.__doc__ or "").partition("\n")[0].rstrip(".")
        yield Told(_place(kind), kind.code, says, "", _status(kind, kind.code))


def _kinds() -> list[type[errors.StepwellError]]:
    own = [kind for kind in vars(errors).values() if isinstance(kind, type) and "code" in vars(kind)]
    return [kind for kind in own if issubclass(kind, errors.StepwellError)]


def _of_ends() -> Iterator[Told]:
    """What the result of a run is refused with that ended without one, and a link that came too late."""
    for end in Status:
        if end.terminal and end is not Status.COMPLETED:
            yield Told("call", f"run_{end.value}", "the run ended without a result: …", "", "409")
    for purpose in ("approval", "callback"):
        code = f"{purpose}_expired"
        yield Told("call", code, f"the {purpose}'s time is over", "", _status(errors.Conflict, code))


def _of_waits() -> Iterator[Told]:
    for kind in (*written_kinds(), "any", "all", "children", "agent", "lock"):
        if kind not in SCHEMAS or not SCHEMAS[kind].is_timer:
            yield Told("run", f"{kind}_timeout", f"… waited for {kind} until its time was up", "", "timeout")


def _in_file(file: Path) -> Iterator[Told]:
    tree, nodes = tree_of(file), nodes_of(file)
    calls = _calls(nodes)
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    texts = _own_texts(tree)
    found = [one for function in functions for one in _in_function(function, calls.get(function.name, ()), texts)]
    for line in tree.body:
        if isinstance(line, ast.Assign) and isinstance(line.value, ast.Call) and (one := _of_call(line.value, texts)):
            found.append(one)
    is_called = file.relative_to(CODE).parts[0] not in _NOT_THE_API
    for one in found:
        yield one if is_called or one.place != "call" else replace(one, kind="")


def _length(one: Told) -> tuple[bool, int, int]:
    return bool(one.kind), len(one.hint), len(one.message)


def _calls(nodes: Iterable[ast.AST]) -> Mapping[str, Sequence[ast.Call]]:
    """The calls of a module's own functions, by the function's name."""
    calls: dict[str, list[ast.Call]] = {}
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            calls.setdefault(node.func.id, []).append(node)
    return calls


def _in_function(
    function: ast.FunctionDef | ast.AsyncFunctionDef, calls: Iterable[ast.Call], texts: Mapping[str, ast.expr]
) -> Iterator[Told]:
    """`calls`: of this function, in its module. `texts`: those of the module."""
    nodes, given = list(ast.walk(function)), _given(function, calls)
    named = ast.Assign | ast.NamedExpr
    made = sorted((node for node in nodes if isinstance(node, named)), key=lambda node: node.lineno)
    for call in nodes:
        if isinstance(call, ast.Call | ast.Yield):
            names = (
                dict(texts)
                | given
                | {
                    name: value
                    for node in made
                    if node.lineno <= call.lineno  # a later one is another error's
                    for name, value in _assigned(node)
                }
            )
            one = _of_check(call, names) or (_of_call(call, names) if isinstance(call, ast.Call) else None)
            if one is not None:
                yield one


def _assigned(node: ast.Assign | ast.NamedExpr) -> Iterator[tuple[str, ast.expr]]:
    for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
        parts = _parts(target)
        values = [node.value] if len(parts) == 1 else _parts(node.value)
        yield from ((one.id, value) for one, value in zip(parts, values, strict=False) if isinstance(one, ast.Name))


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


def _of_call(call: ast.Call, names: Mapping[str, ast.expr]) -> Told | None:
    keywords = {keyword.arg: keyword.value for keyword in call.keywords}
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    code, message, hint, place, kind = keywords.get("code"), call.args[:1], keywords.get("hint"), "call", ""
    if (name in {"add", "warn"} and len(call.args) > 2) or name == "Problem":
        code, place, message = call.args[0], "file", call.args[1:2]
        hint = hint or (call.args[3] if len(call.args) > 3 else None)
    elif name == "problem_at" and len(call.args) > 4:
        code, place, message, hint = call.args[2], "file", call.args[3:4], call.args[4]
    elif name == "Failure" and len(call.args) > 2:
        code, place, message, kind = call.args[0], "run", call.args[2:3], _text(call.args[1], names)
    elif name == "Refuse" and len(call.args) > 1:
        code, hint = call.args[1], next(iter(call.args[2:]), None)
        kind = _status(errors.Conflict, _text(_known(code, names), {}))
    elif name == "problem" and len(call.args) > 2:
        code, message, kind = call.args[1], call.args[2:3], _text(call.args[0], names)
    elif name in _own_kinds():
        code = code or ast.Constant(_own_kinds()[name])
    elif (error := _error(name)) is not None:
        kind, place = _status(error, _text(_known(code, names), {})), _place(error)
    else:
        return None
    code = _known(code, names)
    if not (isinstance(code, ast.Constant) and isinstance(code.value, str) and message):
        return None
    if place != "file" and not _CODE.fullmatch(code.value):  # a name of an error in a state machine
        return None
    return Told(place, code.value, _text(message[0], names), _text(hint, names), kind)


def _of_check(node: ast.Call | ast.Yield, names: Mapping[str, ast.expr]) -> Told | None:
    """What a check of code finds at a place."""
    match node:
        case ast.Yield(value=ast.Tuple(elts=[_, ast.Constant(str(code)), said, hint])):
            message = _text(said, names).replace("{}", "…")
        case ast.Call(func=ast.Attribute(attr="_problem"), args=[ast.Constant(str(code)), said, hint, _]):
            message = _text(said, names)
        case _:
            return None
    return Told("file", code, message, _text(hint, names), "") if message.strip("…: ") else None


def _known(code: ast.expr | None, names: Mapping[str, ast.expr]) -> ast.expr | None:
    """Returns a code that stands under a name: of its module, or of one that is named before the dot."""
    if isinstance(code, ast.IfExp):
        return _known(code.body, names)
    if isinstance(code, ast.Attribute):
        return _texts().get((ast.unparse(code.value), code.attr), code)
    if isinstance(code, ast.Name) and code.id.isupper():  # not a parameter, which has several
        return names.get(code.id) or _only(code.id) or code
    return code


def _only(name: str) -> ast.expr | None:
    """Returns the text of this name, if modules that have it agree: it is imported from one."""
    found = {value.value: value for (_, one), value in _texts().items() if one == name}
    return next(iter(found.values())) if len(found) == 1 else None


@cache
def _texts() -> dict[tuple[str, str], ast.Constant]:
    """Returns the texts that modules name in capitals, such as the type of an error, by module and name."""
    return {
        (file.stem, name): value for file in CODE.rglob("*.py") for name, value in _own_texts(tree_of(file)).items()
    }


def _own_texts(tree: ast.Module) -> dict[str, ast.Constant]:
    return {
        name.id: value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for name, value in zip(_parts(node.targets[0]), _parts(node.value), strict=False)
        if isinstance(name, ast.Name) and isinstance(value, ast.Constant) and isinstance(value.value, str)
    }


def _parts(node: ast.expr) -> list[ast.expr]:
    return node.elts if isinstance(node, ast.Tuple) else [node]


@cache
def _own_kinds() -> dict[str, str]:
    """The errors that a package of `_NOT_THE_API` defines for itself, with the codes that they have by default."""
    return {
        node.name: str(line.value.value)
        for package in sorted(_NOT_THE_API)
        for file in (CODE / package).glob("errors.py")
        for node in tree_of(file).body
        if isinstance(node, ast.ClassDef)
        for line in node.body
        if isinstance(line, ast.Assign) and isinstance(line.value, ast.Constant)
        if ast.unparse(line.targets[0]) == "code"
    }


def _error(name: str) -> type[errors.StepwellError] | None:
    kind = getattr(errors, _bases().get(name, name), None)
    return kind if isinstance(kind, type) and issubclass(kind, errors.StepwellError) else None


@cache
def _bases() -> dict[str, str]:
    """The class of `errors` that each other class of errors extends."""
    bases = {
        node.name: ast.unparse(node.bases[0])
        for file in CODE.rglob("*.py")
        for node in nodes_of(file)
        if isinstance(node, ast.ClassDef) and node.bases and not hasattr(errors, node.name)
    }
    for _ in bases:  # until none extends another of them
        further = {name: bases.get(base, base) for name, base in bases.items()}
        if further == bases:
            break
        bases = further
    return bases


def _place(kind: type[errors.StepwellError]) -> str:
    """Defects and services that do not answer are no refusals: the reader can do nothing but try again."""
    if issubclass(kind, errors.ExpressionError):
        return "run"
    return "fault" if issubclass(kind, errors.PortError | errors.EngineFault | errors.NewerFormat) else "call"


def _status(kind: type[errors.StepwellError], code: str) -> str:
    if issubclass(kind, errors.UserError):
        return str(status_of(kind("", code=code)))
    if _place(kind) == "fault":
        return "500" if issubclass(kind, errors.EngineFault) else "503"
    return "validation" if _place(kind) == "run" else ""


def _text(node: ast.expr | None, names: Mapping[str, ast.expr]) -> str:
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
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "did_you_mean":
        return "did you mean `…`?"
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
        return _text(node.func.value, names).replace("{}", "…")
    if isinstance(node, ast.BoolOp):
        return next(filter(None, (_text(one, names) for one in node.values)), "")
    return ""
