"""The commands for writing workflows: `init`, `dev`, `schema` and `graph`."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from stepwell.cli.arguments import ErrorsAsJson, OfFolder, Url, argument, option, read_json
from stepwell.cli.completing import complete_run, complete_run_or_workflow
from stepwell.cli.connect import connect, there
from stepwell.cli.folder.checking import print_problems, read_definition
from stepwell.cli.folder.projects import Template, adding, installing, needs_stepwell, write_project
from stepwell.cli.folders import DEFINITIONS, EMULATED, data_folder, existing_folder
from stepwell.cli.screen import console, print_error, print_json
from stepwell.errors import StepwellError, UserError
from stepwell.extras import require
from stepwell.os_errors import explained
from stepwell.settings import DEFAULT_PORT, read_settings

if TYPE_CHECKING:
    from stepwell.client import Client
    from stepwell.definition.graph import Graph, Json

Then: TypeAlias = Callable[[str], None] | None  # what happens once the server serves at a URL


class Form(StrEnum):
    """The output formats of `graph`."""

    MERMAID = "mermaid"
    DOT = "dot"
    SVG = "svg"


_SUFFIXES: Mapping[str, Form] = {".svg": Form.SVG, ".dot": Form.DOT, ".mmd": Form.MERMAID}
_PICTURES = frozenset({".png", ".jpg", ".jpeg", ".gif", ".webp", ".pdf"})  # which nothing here draws


def dev(
    folder: OfFolder = None,
    data: Annotated[str | None, option("--data", "DIR", "Data folder; default .stepwell of the project.")] = None,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0: any free port.")] = DEFAULT_PORT,
    reload: Annotated[bool, typer.Option("--reload/--no-reload", help="Reload the folder when it changes.")] = True,
    aws: Annotated[bool, typer.Option("--aws", help="Deploy to an AWS emulator; runs are lost at the end.")] = False,
    workflow: Annotated[str, option("--run", "WORKFLOW", "Start a run once it serves.")] = "",
    given: Annotated[str | None, option("--input -i", "FILE|JSON", "The input of that run.")] = None,
    as_json: ErrorsAsJson = False,
) -> None:
    """Run API, coordinator, worker and timers on this machine."""
    chosen = existing_folder(folder)
    kept = (read_settings().data_dir or data_folder(chosen)) if data is None else _data_folder(data)
    if given is not None and not workflow:
        raise typer.BadParameter("it is the input of --run WORKFLOW, which is not given", param_hint="--input")
    content = read_json(given, "-i") if given is not None else {}
    then = partial(_start_run, workflow, content) if workflow else None
    serve = partial(_emulated, as_json=as_json) if aws else _local
    raise typer.Exit(serve(chosen, kept, port, reload, then))


def _data_folder(given: str) -> Path:
    """Returns the folder of `--data`. Raises UserError for an empty one, which would be this folder."""
    if not given.strip():
        hint = "name a folder, such as --data .stepwell, or leave --data out"
        raise UserError("--data is empty: it names no folder", code="bad_usage", hint=hint)
    return Path(given)


def _start_run(workflow: str, content: Json, url: str) -> None:
    """Starts the run of `--run`. A refusal is printed, and the server goes on."""
    try:
        with connect(url) as client:
            run = client.start(workflow, content)
    except StepwellError as error:
        print_error(error)
    else:
        follow = there(f"stepwell watch {run.id}")
        console(stderr=True).print(f"started {run.id}; follow it with: {follow}", soft_wrap=True)


def _local(folder: Path, data: Path, port: int, reload: bool, then: Then) -> int:
    require("dev", "the local server")
    from stepwell.aws.clients import Clients  # noqa: PLC0415 - as below
    from stepwell.aws.services.calls import ServiceCalls  # noqa: PLC0415 - as below
    from stepwell.local.dev import serve  # noqa: PLC0415 - a server, only for this command

    services = ServiceCalls(Clients().service)  # boto3 is loaded by the first call
    return serve(folder, data, port, reload=reload, then=then, services=services)


def _emulated(folder: Path, data: Path, port: int, reload: bool, then: Then, *, as_json: bool = False) -> int:
    """Serves on the emulator, with a separate data folder so that both servers can run at once."""
    require("emulator", "the AWS emulator")
    from stepwell.cli.deploying.deploy import checked  # noqa: PLC0415
    from stepwell.cli.folder.emulate import serve  # noqa: PLC0415

    checked(folder, as_json=as_json)
    return serve(folder, data / EMULATED, port, reload=reload, then=then)


def init(
    folder: Annotated[Path | None, argument("DIR", "A new or empty folder.")] = None,
    template: Annotated[Template, typer.Option("--template", help="What the project begins with.")] = Template.ORDER,
    here: Annotated[
        bool, typer.Option("--here", help="Add the project to this folder; files that are there stay.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the created files as JSON.")] = False,
) -> None:
    """Create a project that runs: workflows, steps and tests."""
    if (folder is None) != here:
        raise typer.BadParameter("give a folder, or --here for this one", param_hint="DIR")
    made = write_project(folder or Path(), template, here=here)
    is_here = (folder or Path()).resolve() == Path.cwd()
    change = [] if is_here else [f"cd {shlex.quote(str(folder))}"]
    commands = [*change, *installing(), "stepwell dev", made.run]
    if as_json:
        paths = {"files": [path.as_posix() for path in made.files], "kept": [path.as_posix() for path in made.kept]}
        print_json({"folder": str(folder or Path()), **paths, "next": commands})
        return
    out = console()
    for path in made.files:
        out.print(f"wrote {path.as_posix()}", style="dim", soft_wrap=True)
    for path in made.kept:
        out.print(f"kept {path.as_posix()}, which was there", style="yellow", soft_wrap=True)
    if here and not needs_stepwell(Path()):
        out.print(f"add stepwell to the dependencies of this project: {adding(Path())}")
    out.print("\nnext (the last command in a second terminal):")
    for command in commands:
        out.print(f"  {command}", style="bold", soft_wrap=True)


def schema(as_json: ErrorsAsJson = False) -> None:
    """Print the JSON Schema of definitions, for editors. `init` writes it to workflows/.schema.json."""
    from stepwell.definition.editor_schema import json_schema  # noqa: PLC0415 - pydantic: 100 ms

    print_json(json_schema())


def graph(
    target: Annotated[
        str,
        argument("FILE|WORKFLOW|RUN", "A definition file, a workflow's name, or a run's id.", complete_run_or_workflow),
    ] = "",
    run_id: Annotated[str, option("--run", "RUN", "A run, even if a workflow has its name.", complete_run)] = "",
    form: Annotated[Form, typer.Option("--format", help="The output format.")] = Form.MERMAID,
    output: Annotated[Path | None, option("--output -o", "FILE", "Default: the screen.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print nodes and edges as JSON.")] = False,
    url: Url = "",
) -> None:
    """Draw a workflow from a file or from the API, or draw a run."""
    if bool(target) == bool(run_id):
        raise typer.BadParameter(
            "give a definition file, a workflow's name, or a run with --run", param_hint="FILE|WORKFLOW|RUN"
        )
    if run_id:
        with connect(url) as client:
            text = _run_drawn(client, run_id, form, as_json)
    else:
        text = _drawing_of(target, url, form, as_json)
    if output is None:
        typer.echo(text, nl=not text.endswith("\n"))
        return
    _check_ending(output, form, as_json)
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        unknown = UserError(f"cannot write {output}: {error}", code="unwritable")
        raise explained(error, output) or unknown from error


def _check_ending(output: Path, form: Form, as_json: bool) -> None:
    """Raises UserError for a file whose ending says something else than what it would hold."""
    if as_json and output.suffix in {*_SUFFIXES, *_PICTURES}:
        raise UserError(f"{output} would be JSON", code="bad_usage", hint="leave --json out, or name a .json file")
    if as_json:
        return
    if output.suffix in _PICTURES:
        raise UserError(f"a graph cannot be written as {output.suffix}", code="bad_usage",
                        hint=f"--format svg -o {output.with_suffix('.svg')}")  # fmt: skip
    if output.suffix == ".json":
        raise UserError(f"{output} would not be JSON, but {form}", code="bad_usage", hint="add --json")
    if output.suffix in _SUFFIXES and form is not _SUFFIXES[output.suffix]:
        wanted = _SUFFIXES[output.suffix]
        raise UserError(f"{output} would not be {wanted}, but {form}", code="bad_usage", hint=f"add --format {wanted}")


def _drawing_of(target: str, url: str, form: Form, as_json: bool) -> str:
    """Draws a file, else a workflow of the API, else a run of this id."""
    from stepwell.definition.compiler import compile_definition, compile_document  # noqa: PLC0415 - 100 ms
    from stepwell.runtime.folder.loading import load_resources  # noqa: PLC0415 - with the compiler

    path = Path(target)
    if path.suffix == ".py":
        raise UserError(f"{target} is a module, and a durable function is drawn from the log of its run",
                        code="bad_usage", hint="stepwell graph RUN, with the id of a run or `last`")  # fmt: skip
    if path.is_file() or path.suffix in DEFINITIONS:
        compiled = compile_definition(read_definition(path), str(path), load_resources(path.parent).document)
        if compiled.graph is None:
            print_problems(compiled.errors, stderr=True)
            raise UserError(f"cannot draw {target}: fix its errors first", code="bad_definition")
        return _drawn(compiled.graph, form, as_json)
    from stepwell.cli.finding import workflow_or_run  # noqa: PLC0415 - httpx

    with connect(url) as client:

        def workflow() -> str:
            return _drawn(compile_document(client.workflow(target)["document"], trusted=True), form, as_json)

        return workflow_or_run(target, workflow, lambda: _run_drawn(client, target, form, as_json))


def _run_drawn(client: Client, run_id: str, form: Form, as_json: bool) -> str:
    return client.handle(run_id).graph("json" if as_json else form.value)


def _drawn(graph: Graph, form: Form, as_json: bool) -> str:
    from stepwell.api.drawing import picture  # noqa: PLC0415 - only for this command

    if as_json:
        return json.dumps(picture.outline(graph, {}), indent=2)
    return picture.draw(form.value, graph, {})
