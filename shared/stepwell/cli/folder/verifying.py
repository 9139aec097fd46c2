"""The command that verifies a workflow of the user's own: crashed at every write, with every message doubled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stepwell.cli import exits
from stepwell.cli.arguments import OfFolder, ResultAsJson, WorkflowName, option, read_json, read_pairs
from stepwell.cli.folders import chosen_folder
from stepwell.cli.hushing import each_once
from stepwell.cli.screen import console, print_json, progress
from stepwell.cli.views.words import printable
from stepwell.errors import UserError

if TYPE_CHECKING:
    from types import ModuleType

    from stepwell.testing.verify import Report
    from stepwell.testing.verify.answers import Answer

_SECONDS, _SHUFFLES = 60.0, 20


def verify(
    workflow: WorkflowName,
    folder: OfFolder = None,
    given: Annotated[str | None, option("--input -i", "FILE|JSON", "The run's input.")] = None,
    answers: Annotated[
        Path | None,
        option("--answers", "FILE", "Approvals, events, updates: a YAML list, or the export of a run, with its input."),
    ] = None,
    approve: Annotated[bool, typer.Option("--approve", help="Approve whatever waits for an approval.")] = False,
    mock: Annotated[list[str] | None, option("--mock", "STEP=JSON", "What a step returns, without its code.")] = None,
    fail: Annotated[
        list[str] | None, option("--fail", "STEP", "Have this step fail, to see what is compensated.")
    ] = None,
    world: Annotated[
        Path | None,
        option("--world", "FILE", "A Python file with `reset()`, `snapshot()`, and `steps`: replacements by name."),
    ] = None,
    ignore: Annotated[
        list[str] | None, option("--ignore", "PLACE", "A place outside that may differ, such as files.*.tries.")
    ] = None,
    allow_outside: Annotated[
        bool, typer.Option("--allow-outside", help="Let steps reach the network, start processes and write files.")
    ] = False,
    may_fail: Annotated[
        bool, typer.Option("--may-fail", help="The undisturbed run may fail; with --fail it may anyway.")
    ] = False,
    shuffles: Annotated[int, typer.Option("--shuffles", min=0, help="How many schedules double messages.")] = _SHUFFLES,
    seconds: Annotated[
        float, typer.Option("--seconds", min=1, help="How long it may take; what is left then is not tried.")
    ] = _SECONDS,
    as_json: ResultAsJson = False,
) -> None:
    """Crash a workflow at each write, double its messages. Exit status 1: it does not hold; 5: it fails undisturbed.

    Runs the steps of Python for real, many times, in an empty folder, and keeps them from the network, from processes
    and from other files. Calls of HTTP and Lambda steps are left out.
    """
    from stepwell.testing.verify import verify as verified  # noqa: PLC0415 - with the compiler

    module, (found, run_input) = _module(world), _answers(answers)
    steps = {name: read_json(text, "--mock") for name, text in read_pairs(mock or [], "--mock", "charge='{}'").items()}
    with each_once():
        report = verified(
            chosen_folder(folder),
            workflow,
            read_json(given, "-i") if given is not None else run_input,
            world=getattr(module, "snapshot", None),
            reset=getattr(module, "reset", None),
            steps={**getattr(module, "steps", {}), **steps},
            fails=fail or [],
            answers=found,
            approve_all=approve,
            allow_outside=allow_outside,
            may_fail=may_fail,
            ignore=ignore or [],
            shuffles=shuffles,
            seconds=seconds,
            progress=progress("schedules"),
        )
    _finish(report, as_json=as_json)


def _finish(report: Report, *, as_json: bool) -> None:
    """Prints the report. Raises Exit where the workflow breaks, and where nothing is proven."""
    if as_json:
        print_json(report.to_json())
    else:
        _show(report)
    if not report.holds:
        raise typer.Exit(exits.FAILED if report.breaks else exits.UNPROVEN)


def _answers(path: Path | None) -> tuple[tuple[Answer, ...], Any]:
    """Returns what the file says that the outside does, and the input of the run that it is of."""
    from stepwell.local.replaying import ENDING, read_exports  # noqa: PLC0415 - with the compiler
    from stepwell.testing.verify.answers import answers_of, read_answers  # noqa: PLC0415

    if path is None or path.suffix != ENDING:
        return (read_answers(path) if path else ()), {}
    (export,) = read_exports(path)
    return answers_of(export), export.run["input"]


def _module(path: Path | None) -> ModuleType | None:
    """Imports the file. Raises UserError."""
    from importlib.util import module_from_spec, spec_from_file_location  # noqa: PLC0415 - only for this option

    if path is None:
        return None
    spec = spec_from_file_location(f"stepwell_world_{path.stem}", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise UserError(f"{path} is no Python file", code="bad_world", hint="it has `reset()` and `snapshot()`")
    module = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise UserError(f"{path} cannot be imported: {type(error).__name__}: {error}", code="bad_world") from error
    return module


_STYLES: Mapping[str, str] = {"idempotent": "green", "not idempotent": "red", "another result": "red",
                              "may be lost": "yellow"}  # fmt: skip


def _show(report: Report) -> None:
    from rich.table import Table  # noqa: PLC0415 - with the console

    out = console()
    called = ", ".join(report.called) or "no step"
    out.print(printable(f"Ran for real, in an empty folder: {called}."), soft_wrap=True)
    if report.left_out:
        out.print(printable(f"Not called, null instead: {', '.join(report.left_out)}."), soft_wrap=True)
    table = Table("step", "code ran", "again", "verdict", "evidence", box=None, pad_edge=False)
    for one in report.steps:
        style = _STYLES.get(one.verdict.value, "")
        table.add_row(printable(one.step), str(one.runs), str(one.repeats), one.verdict.value,
                      printable(one.evidence), style=style)  # fmt: skip
    out.print(table)
    for broken in report.broken:
        out.print(printable(f"{broken.what}: {broken.detail}"), style="red", soft_wrap=True)
        out.print(printable(f"  in: {broken.schedule}"), style="dim", soft_wrap=True)
    _show_notes(report.notes)
    told = f"{report.crashes} crashes around {report.writes} writes, {report.shuffles} schedules of doubled messages"
    style = "green" if report.holds else "red"
    out.print(printable(f"{report.workflow} {report.verdict}: {told}"), style=style, soft_wrap=True)
    if any(one.verdict.is_bad for one in report.steps):
        out.print("pass ctx.idempotency_key on to whom the step calls, or look there first for what it made",
                  style="cyan", soft_wrap=True)  # fmt: skip


def _show_notes(notes: Sequence[Any]) -> None:
    for note in notes:
        console().print(printable(f"note: {note}"), style="yellow", soft_wrap=True)
