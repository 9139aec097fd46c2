"""The commands that pause a run, a workflow or all workflows, and have them go on."""

from __future__ import annotations

from typing import Annotated

import typer

from stepwell.cli.acts import id_of, report
from stepwell.cli.arguments import AsJson, By, Reason, Url
from stepwell.cli.completing import complete_run_or_workflow
from stepwell.cli.connect import connect, person

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
    from stepwell.cli.finding import workflow_or_run  # noqa: PLC0415 - httpx

    with connect(url) as client:
        found, is_run = workflow_or_run(
            name,
            lambda: (client.pause_workflow(name, reason, by=person(by)), False),
            lambda: (client.handle(name).pause(reason, by=person(by)), True),
        )
    told = f"paused {id_of(found, name)}" if is_run else f"paused {_what(name)}: each stops before its next step"
    report(found, as_json, told)


def unpause(name: Name = "", every: All = False, by: By = "", as_json: AsJson = False, url: Url = "") -> None:
    """Have a paused run go on, or the runs of a paused workflow."""
    _check(name, every)
    from stepwell.cli.finding import workflow_or_run  # noqa: PLC0415 - httpx

    with connect(url) as client:
        found, is_run = workflow_or_run(
            name,
            lambda: (client.unpause_workflow(name, by=person(by)), False),
            lambda: (client.handle(name).unpause(by=person(by)), True),
        )
    report(found, as_json, f"{id_of(found, name)} goes on" if is_run else f"{_what(name)} go on")


def _what(name: str) -> str:
    return f"the runs of {name}" if name else "all runs"


def _check(name: str, every: bool) -> None:
    if bool(name) == every:
        raise typer.BadParameter("name a run or a workflow, or take --all", param_hint="RUN|WORKFLOW")
