"""The commands that delete runs with all their data: one run, or all of a person."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from stepwell.cli import exits
from stepwell.cli.arguments import (
    AsJson,
    Before,
    By,
    DryRun,
    OfTag,
    OfWorkflow,
    Rate,
    RunId,
    Since,
    Url,
    read_filter,
    refuse_empty,
)
from stepwell.cli.connect import LAST, connect, person, there
from stepwell.cli.runs.batching import lines_of, report_of, wait_for_end
from stepwell.cli.screen import console, print_json, report
from stepwell.cli.views.words import counted, printable
from stepwell.errors import UserError

Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
Force = Annotated[bool, typer.Option("--force", help="Terminate runs that have not ended; else they are refused.")]


def delete(run_id: RunId, force: Force = False, yes: Yes = False, as_json: AsJson = False, url: Url = "") -> None:
    """Delete a run, its child runs and all their data. Asks first if the run is given as `last`."""
    with connect(url) as client:
        run = client.handle(run_id)
        if run_id == LAST and not yes:
            found = run.view()
            _ask(f"{found['run_id']} of {found['workflow']}, {found['status']}",
                 there(f"stepwell delete {found['run_id']}"))  # fmt: skip
        answer = run.delete(force=force)
    others = (answer["deleted_runs"] or 1) - 1
    beside = f" and {counted(others, 'child runs')}" if others else ""
    report(answer, as_json, f"deleted {answer['run_id']}{beside}")


def purge(
    called: typer.Context,
    tag: OfTag = "",
    workflow: OfWorkflow = "",
    since: Since = "",
    before: Before = "",
    rate: Rate = 0,
    force: Force = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    by: By = "",
    as_json: AsJson = False,
    url: Url = "",
) -> None:
    """Delete all runs of a filter, their child runs and all their data. Waits for the end."""
    from stepwell.cli.finding import check_workflow  # noqa: PLC0415 - httpx
    from stepwell.client.requests import filled  # noqa: PLC0415 - httpx

    refuse_empty(called, "tag", "workflow", "since", "before")
    if not (tag or workflow or since or before):
        raise UserError("purge deletes runs for good, so it needs to know which", code="no_filter",
                        hint="stepwell purge --tag customer=c7 --dry-run; or --workflow, --since")  # fmt: skip
    since, before = read_filter(tag, since, before)
    if not dry_run and not yes:
        parts = (tag, workflow, since and f"since {since}", before and f"before {before}")
        _ask(f"all runs of this filter: {', '.join(filter(None, parts))}", "look first with --dry-run, then say --yes")
    with connect(url) as client:
        chosen = filled({"tag": tag, "workflow": workflow, "since": since, "before": before})
        job = client.batch("purge", **chosen, rate=rate, force=force, dry_run=dry_run, by=person(by))
        job = wait_for_end(client, str(job["run_id"]), is_told=not dry_run)
        client.handle(str(job["run_id"])).delete()  # its filter names the person
        if workflow and not report_of(job).get("matched"):
            check_workflow(client, workflow)
    if as_json:
        print_json(job)
    for line in () if as_json else lines_of(job):
        console().print(printable(line))
    if job["status"] != "completed" or report_of(job).get("refused"):
        raise typer.Exit(exits.FAILED)


def is_terminal() -> bool:
    """Returns whether somebody can be asked."""
    return sys.stdin.isatty()


def _ask(what: str, otherwise: str) -> None:
    """Raises UserError where nobody can be asked. `otherwise`: what to do there."""
    if not is_terminal():
        raise UserError(f"this deletes for good {what}", code="not_confirmed", hint=otherwise)
    typer.confirm(f"Delete for good {what}?", abort=True, err=True)  # the output may be a file's
