"""`stepwell batch`: one action on many runs, and its report."""

from __future__ import annotations

import time
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from stepwell.cli import exits
from stepwell.cli.arguments import (
    AsJson,
    Before,
    By,
    DryRun,
    OfFailure,
    OfTag,
    OfWorkflow,
    Rate,
    Reason,
    Since,
    Url,
    option,
    read_filter,
    read_statuses,
    refuse_empty,
)
from stepwell.cli.completing import complete_status
from stepwell.cli.connect import connect, person, there
from stepwell.cli.runs.watch import POLL_SECONDS, has_ended
from stepwell.cli.screen import console, print_json
from stepwell.cli.views.words import printable
from stepwell.client.errors import JsonObject

if TYPE_CHECKING:
    from stepwell.client import Client


class Action(StrEnum):
    """What can be done to many runs."""

    CANCEL = "cancel"
    TERMINATE = "terminate"
    PAUSE = "pause"
    UNPAUSE = "unpause"
    REDRIVE = "redrive"


def batch(
    called: typer.Context,
    action: Annotated[Action, typer.Argument(metavar="ACTION", help="cancel, terminate, pause, unpause or redrive.")],
    workflow: OfWorkflow = "",
    status: Annotated[
        list[str] | None,
        option(
            "--status", "STATUS", "Only runs with this status; default: those that the action is for.", complete_status
        ),
    ] = None,
    tag: OfTag = "",
    since: Since = "",
    before: Before = "",
    failure: OfFailure = "",
    rate: Rate = 0,
    canary: Annotated[
        bool, typer.Option("--canary", help="Redrive 1, then 10, then the rest; stop if one fails as before.")
    ] = False,
    dry_run: DryRun = False,
    watch: Annotated[bool, typer.Option("--watch", help="Wait for the end, and print the report.")] = False,
    reason: Reason = "",
    by: By = "",
    as_json: AsJson = False,
    url: Url = "",
) -> None:
    """Cancel, terminate, pause, unpause or redrive many runs."""
    refuse_empty(called, "workflow", "status", "tag", "since", "before", "failure")
    since, before = read_filter(tag, since, before)
    from stepwell.cli.finding import check_workflow  # noqa: PLC0415 - httpx
    from stepwell.client.requests import filled  # noqa: PLC0415 - httpx

    statuses = read_statuses(status or ())
    with connect(url) as client:
        chosen = filled({"workflow": workflow, "status": statuses, "tag": tag, "since": since, "before": before,
                         "failure": failure})  # fmt: skip
        job = client.batch(action.value, **chosen, rate=rate, canary=canary, dry_run=dry_run, reason=reason,
                           by=person(by))  # fmt: skip
        if watch or dry_run:
            job = wait_for_end(client, str(job["run_id"]), is_told=not dry_run)
            if workflow and not report_of(job).get("matched"):
                check_workflow(client, workflow)
    _show(job, as_json)
    if failure and not as_json and has_ended(job) and not report_of(job).get("matched"):
        of_status = " with this status" if statuses else f" that {action.value} is for"
        typer.echo(there(f"no run of this failure{of_status}: stepwell runs --failure {failure}"), err=True)
    if has_ended(job) and (job["status"] != "completed" or report_of(job).get("stopped")):
        raise typer.Exit(exits.FAILED)


def wait_for_end(client: Client, run_id: str, *, is_told: bool = True) -> JsonObject:
    """Waits for the end of a batch, and says on stderr how far it is; of a dry run, nothing."""
    told, handle = "", client.handle(run_id)
    while not has_ended(job := handle.view()):
        if is_told and not told:
            typer.echo(f"{run_id} is under way, and goes on without this command", err=True)
        if is_told and (counted := _counts(report_of(job))) != told:
            typer.echo(counted, err=True)
            told = counted
        time.sleep(POLL_SECONDS)
    return job


def _show(job: JsonObject, as_json: bool) -> None:
    if as_json:
        print_json(job)
    elif has_ended(job):
        for line in lines_of(job):
            console().print(printable(line))
    else:
        console().print(printable(f"{job['run_id']} is under way"))
        report = there(f"stepwell show {job['run_id']}")
        console().print(printable(f"its report: {report}"), style="dim", soft_wrap=True)


def lines_of(job: JsonObject) -> list[str]:
    """What a batch that has ended did."""
    report = report_of(job)
    lines = [f"{job['run_id']} {job['status']}: {_counts(report)}"]
    lines += [f"  {count} refused: {code}" for code, count in sorted(report.get("refused", {}).items())]
    if report.get("dry_run") and report.get("first"):
        lines.append(f"  the newest: {', '.join(report['first'])}")
    if stopped := report.get("stopped"):
        why = "failed as before" if stopped["reason"] == "relapse" else "has not ended in an hour"
        lines.append(f"  stopped: {stopped['run_id']} went on as {stopped['redriven_as']}, which {why}")
    return lines


def _counts(report: JsonObject) -> str:
    if report.get("dry_run"):
        matched = report.get("matched", 0)
        return f"{matched} {'run matches' if matched == 1 else 'runs match'}; nothing was done"
    return f"{report.get('done', 0)} of {report.get('matched', 0)} runs done, {report.get('unchanged', 0)} unchanged"


def report_of(job: JsonObject) -> JsonObject:
    found: JsonObject = (job.get("state") or {}).get("report") or {}
    return found
