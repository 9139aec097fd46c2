"""`stepwell import asl`: takes a state machine of Step Functions into the workflow folder."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from stepwell.cli.arguments import ResultAsJson, argument, option
from stepwell.cli.folder.checking import print_problems, read_definition
from stepwell.cli.folders import default_folder
from stepwell.cli.screen import console, print_json
from stepwell.errors import Conflict, NotFound, Problem, UserError

_TO_FILL_IN = {"unsupported_resource": "resources", "unknown_substitution": "substitutions"}
_PLACEHOLDER = re.compile(r"\$\{(\w+)\}")
_FUNCTION = re.compile(r"arn:aws[\w-]*:lambda:[\w-]*:\d*:function:[\w$:-]+")
_COMPUTED = re.compile(r"\$\{|\{%")
_VALUES = {"resources": "python:module.function", "substitutions": "VALUE"}


def asl(
    file: Annotated[Path, argument("FILE", "The machine, or what `aws stepfunctions describe-state-machine` prints.")],
    folder: Annotated[
        Path | None, option("--folder -f", "FOLDER", "Default the project's, else `workflows/`, else `.`.")
    ] = None,
    name: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            show_default=False,
            help="The workflow's name; default that of the machine, else of the file.",
        ),
    ] = "",
    as_json: ResultAsJson = False,
) -> None:
    """Take a state machine of Step Functions into the workflow folder. What its tasks need is listed."""
    into = folder or default_folder()
    text, told = _machine(file)
    own = _checked(name or told or file.name.removesuffix(file.suffix).removesuffix(".asl"))
    path = into / f"{own}.asl{'.json' if text.lstrip()[:1] == '{' else '.yaml'}"
    if path.exists():
        raise Conflict(f"{path} is there already", code="file_exists", hint="give another --name, or remove the file")
    _check_new(own, into)
    into.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    problems = _problems(text, path)
    lacking = _lacking(text, problems)
    others = [one for one in problems if one.code not in _TO_FILL_IN]
    called, services = _called(text, into)
    if as_json:
        told_problems = [str(one) for one in others]
        print_json({"file": str(path), "resources": lacking, "functions": called, "services": services,
                    "problems": told_problems})  # fmt: skip
        return
    console().print(f"wrote {path}", style="green", soft_wrap=True)
    print_problems(others)
    _print_lacking(into, lacking)
    _print_called(into, [*called, *services])
    console().print(f"then: stepwell check {into}", style="cyan", soft_wrap=True)


def _machine(file: Path) -> tuple[str, str]:
    """Returns the text of the machine, and its name if the file tells one. Raises UserError."""
    from stepwell.definition.loader import load_document  # noqa: PLC0415 - YAML takes 50 ms

    if not file.exists():
        hint = "give the machine's JSON or YAML, or what `aws stepfunctions describe-state-machine` prints"
        raise NotFound(f"there is no file {str(file)!r}", code="no_such_file", hint=hint)
    text, name = read_definition(file), ""
    loaded = load_document(text, str(file))
    if loaded.problems:
        wrong = loaded.problems[0]
        raise UserError(f"{file}:{wrong.line}:{wrong.column}: {wrong.message}", code="not_a_machine", hint=wrong.hint)
    data = loaded.data
    if isinstance(data, dict) and isinstance(data.get("definition"), str):
        text, name = data["definition"], data.get("name") or ""
        data = load_document(text).data
    if not isinstance(data, dict) or "States" not in data:
        raise UserError(f"{file} is no state machine: it has no `States`", code="not_a_machine",
                        hint="give the definition, or the JSON of describe-state-machine")  # fmt: skip
    return text, str(name)


def _checked(name: str) -> str:
    """Returns the name. Raises UserError for one that no workflow can have."""
    from stepwell.definition.text import NAME, NAME_HINT  # noqa: PLC0415 - with the compiler

    if not NAME.fullmatch(name) or ".." in name:
        raise UserError(f"a workflow cannot be named {name!r}", code="bad_name", hint=f"give a --name: {NAME_HINT}")
    return name


def _check_new(name: str, into: Path) -> None:
    """Raises Conflict if the folder has a workflow of this name, in a file of whatever format."""
    from stepwell.runtime.folder.loading import load_folder  # noqa: PLC0415 - with the compiler

    if not into.is_dir():
        return
    found = load_folder(into)
    if name in found.flawed or any(graph.name == name for graph in found.graphs):
        raise Conflict(f"{into} has a workflow {name!r} already", code="workflow_exists",
                       hint="give another --name, or remove its file")  # fmt: skip


def _problems(text: str, path: Path) -> Sequence[Problem]:
    from stepwell.definition.compiler import compile_definition  # noqa: PLC0415 - 100 ms
    from stepwell.runtime.folder.loading import load_resources  # noqa: PLC0415 - with the compiler

    return compile_definition(text, str(path), load_resources(path.parent).document).errors


def _lacking(text: str, problems: Sequence[Problem]) -> dict[str, list[str]]:
    """Returns what resources.yaml is to have: the names of resources that nothing runs, and of substitutions."""
    from stepwell.definition.loader import load_document  # noqa: PLC0415 - YAML takes 50 ms

    data = load_document(text).data
    found: dict[str, dict[str, None]] = {}
    for one in problems:
        if (key := _TO_FILL_IN.get(one.code)) is not None:
            written = str(_at(data, one.path))
            unfilled = dict.fromkeys(_PLACEHOLDER.findall(written))
            names = unfilled if key == "substitutions" else {} if unfilled else {written: None}
            found[key] = {**found.get(key, {}), **names}
    return {key: list(names) for key, names in found.items() if names}


def _called(text: str, into: Path) -> tuple[list[str], list[str]]:
    """Returns the functions and the services of AWS that the machine calls, but for those that resources.yaml maps."""
    from stepwell.definition.loader import load_document  # noqa: PLC0415 - YAML takes 50 ms
    from stepwell.definition.states_language import is_named  # noqa: PLC0415 - with the compiler
    from stepwell.runtime.folder.loading import load_resources  # noqa: PLC0415 - with the compiler

    mapped = load_resources(into).document.get("resources", {})

    def left(names: Iterable[str]) -> list[str]:
        return [one for one in dict.fromkeys(names) if not any(is_named(one, name) for name in mapped)]

    calls = [one for one in _calls(load_document(text).data) if left([one[0]])]
    functions = [*_FUNCTION.findall(text), *(function for _, function in calls if function)]
    return left(functions), left(resource for resource, function in calls if not function)


def _calls(data: Any) -> Iterator[tuple[str, str]]:
    """Yields each Resource that AWS runs: with the function for `lambda:invoke`, where it is written out."""
    from stepwell.definition.asl import services  # noqa: PLC0415 - with the compiler

    for one in _mappings(data):
        resource = one.get("Resource")
        if not isinstance(resource, str) or not resource.startswith("arn:"):
            continue
        call = services.call_name(resource).removesuffix(".waitForTaskToken")
        if call == services.INVOKE:
            given = one.get("Parameters", one.get("Arguments"))
            function = given.get("FunctionName") if isinstance(given, dict) else None
            if isinstance(function, str) and not _COMPUTED.search(function):
                yield resource, function
        elif call != services.HTTP and (services.is_service(call) or call in (*services.READS, services.WRITE)):
            yield resource, ""


def _mappings(data: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(data, dict):
        yield data
    for one in data.values() if isinstance(data, dict) else data if isinstance(data, list) else ():
        yield from _mappings(one)


def _at(data: Any, path: str) -> Any:
    """Returns the value at a JSON pointer of the machine."""
    for part in path.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        data = data[int(name)] if isinstance(data, list) else data[name]
    return data


def _print_lacking(into: Path, lacking: Mapping[str, Sequence[str]]) -> None:
    if not lacking:
        return
    out = console()
    out.print(f"write into {into / 'resources.yaml'} what runs in place of these:", soft_wrap=True)
    for key, names in lacking.items():
        out.print(f"{key}:", style="bold")
        for name in names:
            out.print(f"  {json.dumps(name, ensure_ascii=False)}: {_VALUES[key]}", markup=False, soft_wrap=True)


def _print_called(into: Path, called: Sequence[str]) -> None:
    if called:
        told = f"AWS runs these; for `stepwell dev`, name in {into / 'resources.yaml'} what runs in their place:"
        console().print("\n  ".join((told, *called)), markup=False, highlight=False, soft_wrap=True)
