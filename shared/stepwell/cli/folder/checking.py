"""`stepwell check`: lists every problem of definition files and folders, with its line."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stepwell.cli import exits
from stepwell.cli.arguments import argument, unread
from stepwell.cli.folders import chosen_folder
from stepwell.cli.screen import console, print_json
from stepwell.cli.views.words import counted, printable
from stepwell.errors import NotFound, Problem
from stepwell.project import WORKFLOWS, Project, find_project, project_of
from stepwell.repeated import told_once

if TYPE_CHECKING:
    from stepwell.runtime.folder.loading import Folder

EXCERPT_CHARACTERS = 160  # of a longer line


def check(
    paths: Annotated[
        list[Path] | None, argument("FILE|FOLDER", "Default the project's folder, else `workflows/`, else `.`.")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Warnings count as errors.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the problems as JSON and nothing else.")] = False,
) -> None:
    """Check definitions, or a folder with its code and webhooks."""
    problems: list[Problem] = []
    workflows = 0
    for path in [chosen_folder(one) for one in paths or ()] or [chosen_folder(None)]:
        count, found = check_path(path)
        problems += in_order(found)
        workflows += count
    errors = sum(problem.severity == "error" for problem in problems)
    if as_json:
        print_json([asdict(problem) for problem in problems])
    else:
        print_problems(problems)
        told = ((workflows, "workflows"), (errors, "errors"), (len(problems) - errors, "warnings"))
        style = "red" if errors else "yellow" if problems else "green"
        console().print(", ".join(counted(*one) for one in told), style=style)
        if errors:
            again = shlex.join(["stepwell", "check", *(str(path) for path in paths or ())])
            console().print(f"mend them, then: {again}", style="cyan", soft_wrap=True)
    if errors or (strict and problems):
        raise typer.Exit(exits.FAILED)


def in_order(problems: Sequence[Problem]) -> list[Problem]:
    """Returns the problems of each file by line, files in the order in which they are named first."""
    files = {one.file: number for number, one in reversed(list(enumerate(problems)))}
    return sorted(problems, key=lambda one: (files[one.file], one.line, one.column))


def check_path(path: Path) -> tuple[int, Sequence[Problem]]:
    """Returns the number of definitions in a file or folder, and their problems."""
    if path.is_dir():
        loaded, problems = check_folder(path)
        is_empty = not loaded.count and not loaded.webhooks and all(one.severity != "error" for one in problems)
        return loaded.count, (*problems, *([_empty(path)] if is_empty else []))
    if path.suffix == ".py" and path.is_file():
        return _check_module(path)
    from stepwell.definition.webhooks import FILES, check_webhooks  # noqa: PLC0415 - with the compiler

    if path.name in FILES:
        from stepwell.runtime.notify.telling import TOLD  # noqa: PLC0415 - with the engine

        return 0, check_webhooks(read_definition(path), str(path), types=TOLD).problems
    return 1, _check_definition(path)


def _check_module(path: Path) -> tuple[int, Sequence[Problem]]:
    from stepwell.runtime.folder.code import check_folder_code  # noqa: PLC0415 - with the compiler
    from stepwell.runtime.folder.loading import check_module  # noqa: PLC0415 - with the compiler

    count, problems = check_module(path)
    folder, here = _folder_of(path), path.resolve()
    code = check_folder_code(folder, project_of(folder).sources[1:])
    return count, (*problems, *(replace(one, file=str(path)) for one in code if Path(one.file).resolve() == here))


def _check_definition(path: Path) -> Sequence[Problem]:
    from stepwell.aws.services.checks import check_services  # noqa: PLC0415 - with the compiler
    from stepwell.cli.folder.file_checks import check_code_of, check_limits_of  # noqa: PLC0415 - with the compiler
    from stepwell.definition.called import unknown_workflows  # noqa: PLC0415 - with the compiler
    from stepwell.definition.compiler import compile_definition  # noqa: PLC0415 - 100 ms
    from stepwell.runtime.folder.loading import load_resources  # noqa: PLC0415 - with the compiler
    from stepwell.runtime.folder.placing import with_lines  # noqa: PLC0415 - with the compiler
    from stepwell.runtime.folder.sources import without_timed  # noqa: PLC0415 - with the compiler
    from stepwell.runtime.starts.scheduled import schedule_problems  # noqa: PLC0415 - the same

    folder, text = _folder_of(path), read_definition(path)
    is_known = _is_workflow_folder(folder)
    made = compile_definition(text, str(path), load_resources(folder).document)
    code = check_code_of(path, text, folder, is_known=is_known)
    if made.graph is None:
        return (*made.problems, *code)
    hint = "it may be in another file; check the whole folder"
    unknown = unknown_workflows(made.called, [made.graph.name], "warning", hint)
    try:
        problems = without_timed(made.problems, [made.graph], folder)
    except PermissionError:  # of a folder beside the file, such as one in /tmp: the warnings stay
        problems = made.problems
    limits = check_limits_of(made.graph, folder, str(path), is_known=is_known)
    placed = with_lines((*limits, *schedule_problems(made.graph, str(path))))
    return (*problems, *check_services(path, folder), *unknown, *code, *placed)


def _folder_of(path: Path) -> Path:
    """Returns the workflow folder that a file is in: the project's, if the file is below it, or else its own folder."""
    project = find_project(path.parent)
    return project.folder if project and path.resolve().is_relative_to(project.folder.resolve()) else path.parent


def _is_workflow_folder(folder: Path) -> bool:
    """Whether a folder is certainly a workflow folder: a project's, or the default one."""
    project = find_project(folder)
    known = project.folder if project else Path(WORKFLOWS)
    return folder.resolve() == known.resolve()


def check_folder(path: Path) -> tuple[Folder, tuple[Problem, ...]]:
    """Returns the contents of a workflow folder, and the problems of its files, its code and its project.

    Raises NotFound if there is no such folder.
    """
    from stepwell.aws.services.checks import check_services  # noqa: PLC0415 - with the compiler
    from stepwell.cli.folder.own_modules import not_in_packages, with_own_places  # noqa: PLC0415 - with the compiler
    from stepwell.runtime.folder.code import check_folder_code  # noqa: PLC0415 - with the compiler
    from stepwell.runtime.folder.loading import load_folder  # noqa: PLC0415 - with the compiler

    loaded, project = load_folder(path), project_of(path)
    code = with_own_places(check_folder_code(path, project.sources[1:]), project)
    code = code if path.is_absolute() else map(_from_here, code)
    own = (*_missing_packages(project), *not_in_packages(path, project))
    return loaded, (*loaded.problems, *code, *check_services(path), *own)


def _from_here(problem: Problem) -> Problem:
    """The problem with the path of its file from the current folder, as that of the workflow folder is given."""
    file, here = Path(problem.file), Path.cwd()
    return replace(problem, file=str(file.relative_to(here))) if file.is_relative_to(here) else problem


def _missing_packages(project: Project) -> Iterator[Problem]:
    """Yields a warning for each dependency that is not installed: Lambda would have it, this machine does not."""
    for name in project.not_installed():
        message = f"the project's dependency {name} is not installed here"
        hint = "install it, so that this check and your tests see what Lambda will have"
        yield Problem("dependency_not_installed", message, hint=hint, file=str(project.root), severity="warning")


def _empty(folder: Path) -> Problem:
    hint = "give the folder with your definitions, or create one: stepwell init DIR"
    return Problem("no_workflows", f"there are no workflows in {folder}", hint=hint, file=str(folder))


def read_definition(path: Path) -> str:
    """Reads the text of a definition file. Raises UserError."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        hint = "give a definition, or a folder with definitions; stepwell init DIR creates one"
        raise NotFound(f"there is no file or folder {str(path)!r}", code="no_such_file", hint=hint) from error
    except (OSError, UnicodeDecodeError) as error:
        raise unread(path, error) from error


def print_problems(problems: Sequence[Problem], *, stderr: bool = False) -> None:
    """Prints each problem with its place, its line with a caret below, and its hint. Many warnings alike are one."""
    from rich.text import Text  # noqa: PLC0415 - with the console

    lines = _Lines()
    shown = Text()
    for problem in told_once(problems):
        place = ":".join(str(part) for part in (problem.file, problem.line, problem.column) if part)
        shown.append(printable(f"{place}: " if place else ""), style="bold")
        shown.append(f"{problem.severity} ", style="bold red" if problem.severity == "error" else "bold yellow")
        shown.append(printable(f"{problem.message} [{problem.code}]\n"))
        for excerpt in lines.excerpt(problem):
            shown.append(f"{excerpt}\n", style="dim")
        if problem.hint:
            shown.append(printable(f"  hint: {problem.hint}\n"), style="cyan")
    console(stderr=stderr).print(shown, soft_wrap=True, end="")


class _Lines:
    """The lines of the files with problems. Each file is read once."""

    def __init__(self) -> None:
        self._read: dict[str, list[str]] = {}

    def excerpt(self, problem: Problem) -> list[str]:
        """Returns the line and a caret under its column; nothing if the place is unknown."""
        lines = self._of(problem.file) if problem.file and problem.line else []
        if not lines or problem.line > len(lines):
            return []
        number, (text, column) = f"{problem.line:>5} | ", _cut(lines[problem.line - 1], problem.column)
        caret = [" " * (len(number) + column - 1) + "^"] if column else []
        return [number + printable(text.replace("\t", " ")), *caret]

    def _of(self, file: str) -> list[str]:
        if file not in self._read:
            try:
                self._read[file] = Path(file).read_text(encoding="utf-8").splitlines()
            except (OSError, UnicodeDecodeError):
                self._read[file] = []
        return self._read[file]


def _cut(line: str, column: int) -> tuple[str, int]:
    """Returns what of a line is around a column, and its column there: a definition in one line may have megabytes."""
    if len(line) <= EXCERPT_CHARACTERS:
        return line, column
    begin = min(max(column - EXCERPT_CHARACTERS // 2, 0), len(line) - EXCERPT_CHARACTERS)
    end = begin + EXCERPT_CHARACTERS
    text = ("…" if begin else "") + line[begin:end] + ("…" if end < len(line) else "")
    return text, column - begin + (1 if begin else 0) if column else 0
