"""The commands that pause a run, a workflow or all workflows, and have them go on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from stepwell.cli.acts import id_of, report
from stepwell.cli.arguments import AsJson, By, Reason, Url
from stepwell.cli.completing import complete_run_or_workflow
from stepwell.cli.connect import connect, person
from stepwell.client.errors import JsonObject

Name = Annotated[
    str,
    typer.Argument(
        metavar="RUN|WORKFLOW",
        help="A workflow's name, or a run's id, its beginning or end, or last.",
        show_default=False,
        autocompletion=complete_run_or_workflow,
    ),
]
All = Annotated[bool, typer.Option("--all", help="All workflows, instead of one.")]


def pause(
    name: Name = "", every: All = False, reason: Reason = "", by: By = "", as_json: AsJson = False, url: Url = ""
) -> None:
    """Stop a run before its next step, or all runs of a workflow."""
    _check(name, every)
    with connect(url) as client:
        answer = _of_workflow(name, lambda: client.pause_workflow(name, reason, by=person(by)))
        found = answer or _of_run(name, lambda: client.handle(name).pause(reason, by=person(by)))
    told = f"paused {_what(name)}: each stops before its next step" if answer else f"paused {id_of(found, name)}"
    report(found, as_json, told)


def unpause(name: Name = "", every: All = False, by: By = "", as_json: AsJson = False, url: Url = "") -> None:
    """Have a paused run go on, or the runs of a paused workflow."""
    _check(name, every)
    with connect(url) as client:
        answer = _of_workflow(name, lambda: client.unpause_workflow(name, by=person(by)))
        found = answer or _of_run(name, lambda: client.handle(name).unpause(by=person(by)))
    report(found, as_json, f"{_what(name)} go on" if answer else f"{id_of(found, name)} goes on")


def _of_workflow(name: str, call: Callable[[], JsonObject]) -> JsonObject | None:
    """The answer for a workflow, or for all of them; None if there is none of this name: it is a run's."""
    from stepwell.client.errors import NotFoundProblem  # noqa: PLC0415 - httpx

    if name == "last" or name.startswith("run_"):
        return None
    try:
        return call()
    except NotFoundProblem as missing:
        if missing.code != "unknown_workflow":
            raise
    return None


def _of_run(name: str, call: Callable[[], JsonObject]) -> JsonObject:
    """The answer for a run. Where there is none, a name may have been meant for a workflow's."""
    from stepwell.client.errors import NotFoundProblem  # noqa: PLC0415 - httpx

    try:
        return call()
    except NotFoundProblem as missing:
        if missing.code != "unknown_run" or name == "last" or name.startswith("run_"):
            raise
        told = {
            "detail": f"there is no run and no workflow {name!r}",
            "hint": "stepwell runs lists the runs, GET /workflows the workflows",
        }
        raise NotFoundProblem(missing.status, {**missing.problem, **told}) from missing


def _what(name: str) -> str:
    return f"the runs of {name}" if name else "all runs"


def _check(name: str, every: bool) -> None:
    if bool(name) == every:
        raise typer.BadParameter("name a run or a workflow, or take --all", param_hint="RUN|WORKFLOW")
