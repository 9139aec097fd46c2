"""Prints output: tables and colours for people, JSON for programs, errors on stderr."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer

from stepwell.cli.connect import all_there, with_run
from stepwell.cli.hints import hint_of
from stepwell.cli.views.words import printable
from stepwell.client.errors import ApiProblem
from stepwell.errors import StepwellError, UserError
from stepwell.settings import read_settings
from stepwell.violations import worded

if TYPE_CHECKING:
    from rich.console import Console

PIPE_COLUMNS = 160  # the width of a table in a file or a pipe, unless COLUMNS is set


def console(*, stderr: bool = False) -> Console:
    """Returns a console for people, which prints data without markup, emoji or highlighting."""
    from rich.console import Console  # noqa: PLC0415 - 100 ms that `--help` and `--json` do without

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else shutil.get_terminal_size((PIPE_COLUMNS, 50)).columns
    return Console(
        stderr=stderr,
        highlight=False,
        markup=False,
        emoji=False,
        width=width,
        no_color=read_settings().no_color or None,
    )


def print_json(value: Any) -> None:
    """Prints JSON in ASCII, which every terminal's encoding supports."""
    typer.echo(json.dumps(value, indent=2))


def report(answer: Mapping[str, Any], as_json: bool, told: str) -> None:
    """Prints an answer of the API: as JSON, or in these words."""
    if as_json:
        print_json(answer)
    else:
        console().print(printable(told), soft_wrap=True)


def print_error(error: StepwellError, *, as_json: bool = False, commands: Iterable[str] = ()) -> None:
    """Prints an error on stderr: message, places, hint, and code. As JSON it is a problem document, on stdout.

    `commands`: the names of those that take a `--url`. In the hint they get that of the command that failed.
    """
    hint = all_there(with_run(hint_of(error)), commands)
    if as_json:
        print_json(_document(error, hint))
        return
    headline = _headline(error)
    typer.echo(f"error: {printable(headline)} [{printable(error.code)}]", err=True)
    for path, message in _details(error):
        if _plain(message) not in _plain(headline):  # a single mistake is in both
            typer.echo(f"  {printable(path)}{': ' if path else ''}{printable(message)}", err=True)
    typer.echo(f"  hint: {printable(hint)}", err=True)


def progress(what: str) -> Callable[[int, int], None]:
    """Returns what shows `3 of 20 schedules` on stderr, in one line; nothing where nobody looks."""
    is_shown = sys.stderr.isatty()

    def show(done: int, of: int) -> None:
        if is_shown:
            typer.echo(f"\r{done} of {of} {what}", err=True, nl=done == of)

    return show


def print_warnings(sentences: Iterable[str]) -> None:
    """Prints warnings on stderr, also beside JSON."""
    for sentence in sentences:
        typer.echo(f"warning: {printable(sentence)}", err=True)


def _document(error: StepwellError, hint: str) -> Mapping[str, Any]:
    """The API's problem document, or one of the same shape: a gateway has answered with less than that."""
    errors: list[Mapping[str, Any]] = [{"path": path, "message": message} for path, message in _details(error)]
    if isinstance(error, UserError):
        errors = [asdict(problem) for problem in error.problems]  # as `check --json` has them
    title = error.code.replace("_", " ").capitalize()
    own = {"type": f"urn:stepwell:{error.code}", "code": error.code, "title": title, "status": None,
           "detail": error.message, "hint": hint, "errors": errors}  # fmt: skip
    if not isinstance(error, ApiProblem):
        return own
    return {**own, "status": error.status, **error.problem, "hint": hint}


def _plain(text: str) -> str:
    return text.replace("`", "")


def _headline(error: StepwellError) -> str:
    if isinstance(error, ApiProblem) and error.title and error.title != error.message:
        return f"{error.title}: {worded(error.message)}"
    return worded(error.message)


def _details(error: StepwellError) -> list[tuple[str, str]]:
    if isinstance(error, ApiProblem):
        return error.errors
    return [(one.path, one.message) for one in error.problems] if isinstance(error, UserError) else []
