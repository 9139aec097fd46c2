"""The commands that start and show runs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stepwell.cli import exits
from stepwell.cli.arguments import (
    AsJson,
    Before,
    Cursor,
    Limit,
    OfFailure,
    OfTag,
    OfWorkflow,
    RunId,
    Since,
    Url,
    argument,
    option,
    read_filter,
    read_json,
    read_key,
    read_pairs,
    read_start,
    read_statuses,
    read_words,
)
from stepwell.cli.completing import WAITS, complete_run, complete_status, complete_wait, complete_workflow
from stepwell.cli.connect import connect, there
from stepwell.cli.runs.watch import follow, has_ended, wait_until_ended
from stepwell.cli.screen import console, print_json, print_warnings
from stepwell.cli.views.words import printable
from stepwell.client.errors import JsonObject
from stepwell.limits import PAGE_ITEMS

if TYPE_CHECKING:
    from stepwell.client import Client


OfWait = Annotated[
    str, option("--waiting-for", "KIND", "Only runs that wait for this: approval, event, sleep, …", complete_wait)
]
OfParent = Annotated[str, option("--parent", "RUN", "Only runs that this run started.", complete_run)]
OfOrigin = Annotated[
    str, option("--origin", "RUN", "Only runs made of this one: redriven, rerun, forked.", complete_run)
]
OfKey = Annotated[str | None, option("--key", "KEY", "The run that a start with this key made; needs --workflow.")]
Statuses = Annotated[
    list[str] | None,
    option("--status", "STATUS", "Only runs with this status: waiting, failed, …; repeatable.", complete_status),
]


class Sort(StrEnum):
    """Orders of a list of runs, other than the newest first."""

    WAITING_UNTIL = "waiting-until"


def run(
    workflow: Annotated[str, argument("WORKFLOW", "The name of a workflow.", complete_workflow)],
    given: Annotated[str | None, option("--input -i", "FILE|JSON", "The run's input; - for stdin.")] = None,
    run_id: Annotated[str | None, option("--id", "ID", "The run's id; default a new one.")] = None,
    key: Annotated[str | None, option("--key", "KEY", "Idempotency key: one run for each key.")] = None,
    tag: Annotated[list[str] | None, option("--tag", "NAME=VALUE", "A tag of the run; repeatable.")] = None,
    start_at: Annotated[
        str, option("--start-at", "TIME", "When to begin, in local time: 2027-01-01T09:00; or with a zone.")
    ] = "",
    delay: Annotated[str, option("--delay", "DURATION", "How long from now to begin: 2h, 7d.")] = "",
    priority: Annotated[
        int | None, option("--priority", "N", "A greater one goes first; default the workflow's.")
    ] = None,
    version: Annotated[
        str,
        option(
            "--version",
            "pin|latest|HASH|NUMBER|ALIAS",
            "Default latest, the deployed one. pin: the same, and redrives and forks of the run keep it.",
        ),
    ] = "",
    watch_it: Annotated[bool, typer.Option("--watch", "-w", help="Follow the run until it ends.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the run ends, then show it.")] = False,
    as_json: AsJson = False,
    url: Url = "",
) -> None:
    """Start a run of a workflow. With --watch or --wait, the exit status is 1 unless it completed."""
    from stepwell.client import calls  # noqa: PLC0415 - httpx

    options: Any = {"id": run_id, "key": key} | ({"tags": read_pairs(tag, "--tag")} if tag else {})
    if (start := read_start(start_at, delay)) != "":
        options["start_at"] = start
    if version:
        options["version"] = version
    if priority is not None:
        options["priority"] = priority
    content = read_json(given, "-i") if given is not None else {}
    with connect(url) as client:
        started, is_new = client.send(calls.start(workflow, content, **options))
        print_warnings(started.get("warnings", ()))
        if wait or watch_it:
            _wait_for(client, started, watch=watch_it and not as_json, as_json=as_json)
        elif as_json:
            print_json(started)
        else:
            _tell_start(started, workflow, is_new=is_new)


def _wait_for(client: Client, started: JsonObject, *, watch: bool, as_json: bool) -> None:
    """Follows the run, or waits and shows it, and exits with the code of its end."""
    started_id = str(started.get("run_id"))
    if watch:
        _exit_like(follow(client, started_id, console()))
        return
    ended = wait_until_ended(client, started_id)
    _show(ended, as_json)
    _exit_like(ended)


def _tell_start(started: JsonObject, workflow: str, *, is_new: bool) -> None:
    folded = "became part of" if started.get("folded") else "already started:"
    told, run_id = "started" if is_new else folded, started.get("run_id")
    console().print(f"{told} {run_id} ({workflow}), {started.get('status')}")
    console().print(f"follow it: {there(f'stepwell watch {run_id}')}", style="dim", soft_wrap=True)


def runs(
    workflow: OfWorkflow = "",
    status: Statuses = None,
    tag: OfTag = "",
    since: Since = "",
    before: Before = "",
    failure: OfFailure = "",
    waiting_for: OfWait = "",
    parent: OfParent = "",
    origin: OfOrigin = "",
    key: OfKey = None,
    overdue: Annotated[bool, typer.Option("--overdue", help="Only runs whose wait is overdue.")] = False,
    sort: Annotated[
        Sort | None,
        typer.Option("--sort", show_default=False, help="Only runs whose wait has a deadline, the soonest first."),
    ] = None,
    limit: Limit = PAGE_ITEMS,
    cursor: Cursor = "",
    as_json: AsJson = False,
    url: Url = "",
) -> None:
    """List runs, newest first, without Stepwell's own."""
    since, before = read_filter(tag, since, before)
    statuses = read_statuses(status or ())
    read_words([waiting_for], WAITS, "wait")
    from stepwell.cli.finding import OWN, check_workflow  # noqa: PLC0415 - httpx

    with connect(url) as client:
        found = client.runs(
            workflow=workflow,
            status=statuses,
            tag=tag,
            since=since,
            before=before,
            waiting_for=waiting_for,
            failure=failure,
            parent=_whole(client, parent),
            origin=_whole(client, origin),
            key=read_key(key),
            overdue=overdue,
            sort=sort.value.replace("-", "_") if sort else "",
        )
        page = found.page(limit, cursor)
        if workflow and not page.items and not cursor:
            check_workflow(client, workflow)
    if as_json:
        print_json(page.document)
    else:
        is_any = workflow or parent or origin or key is not None
        shown = [one for one in page.items if is_any or not str(one.get("workflow")).startswith(OWN)]
        _print_page(shown, page.next_cursor)


def _print_page(items: Sequence[JsonObject], next_cursor: str | None) -> None:
    from stepwell.cli.views.render import runs_table  # noqa: PLC0415 - rich

    if items:
        out = console()
        out.print(runs_table(items, datetime.now(UTC), out.width))
    elif not next_cursor:
        typer.echo("no runs", err=True)
    if next_cursor:
        typer.echo(f"there are more: --cursor {next_cursor}", err=True)


def _whole(client: Client, given: str) -> str:
    """The id of a run that is named by a part of it, or as the last one."""
    return str(client.handle(given).view()["run_id"]) if given else ""


def show(
    run_id: RunId,
    branches: Annotated[
        str,
        option(
            "--branches", "STATUS", "List the branches with this status: failed, waiting, …; or all.", complete_status
        ),
    ] = "",
    fork: Annotated[
        str, option("--fork", "ID", "List the branches of this fork, such as 0/3; default the last one.")
    ] = "",
    as_json: AsJson = False,
    url: Url = "",
) -> None:
    """Show a run: its status, steps and result. With --branches: the branches of its fork."""
    statuses = read_statuses([branches], ["all"])
    from stepwell.client.forks import forks_of  # noqa: PLC0415 - the client's package

    with connect(url) as client:
        run = client.handle(run_id)
        if not branches and not fork:
            _show(run.view(), as_json)
            return
        forks = {} if fork else forks_of(run.history())
        chosen = fork or next(reversed(forks), "")
        found = [*run.branches(fork=chosen, status="" if "all" in statuses else ",".join(statuses))]
        has_failed = not as_json and any(one.get("status") == "failed" for one in found)
        run_status = run.status() if has_failed else ""  # which tells whether the failures were tolerated
    if as_json:
        print_json({"items": found, "next_cursor": None})
        return
    from stepwell.cli.views.render import branches_table  # noqa: PLC0415 - rich

    if found:
        console().print(branches_table(found, run_status))
    else:
        typer.echo(printable(_no_branches(chosen, forks)), err=True)


def _no_branches(chosen: str, forks: dict[str, str]) -> str:
    """Says that no branch of a fork matches, and how the run's other forks are asked for."""
    of_fork = f" of the fork {chosen}" if chosen else ""
    others = [f"--fork {one}{f' of {step}' if step else ''}" for one, step in reversed(forks.items()) if one != chosen]
    more = f", which is the last; there are more: {', '.join(others[:5])}" if others else ""
    return f"no matching branches{of_fork}{more}"


def history(
    run_id: RunId,
    after: Annotated[str, option("--after", "ID", "Only entries after this one.")] = "",
    token: Annotated[str, option("--token", "ID", "Only this branch, such as 0/3.17.")] = "",
    phases: Annotated[bool, typer.Option("--phases", help="List changes of phase too.")] = False,
    as_json: AsJson = False,
    url: Url = "",
) -> None:
    """Show a run's history, oldest first. It includes the branches of forks that have up to 100."""
    with connect(url) as client:
        entries = client.handle(run_id).history(after=after, token=token, phases=phases)
        if as_json:
            print_json({"items": list(entries), "next_cursor": None})
            return
        from stepwell.cli.views.telling import history_lines  # noqa: PLC0415 - rich

        out = console()
        for line in history_lines(entries, datetime.now(UTC)):
            out.print(line, soft_wrap=True)


def watch(run_id: RunId, as_json: AsJson = False, url: Url = "") -> None:
    """Follow a run until it ends. The exit status is 1 unless it completed. --json prints the ended run."""
    with connect(url) as client:
        if as_json:
            found = wait_until_ended(client, run_id)
            print_json(found)
        else:
            found = follow(client, run_id, console())
    _exit_like(found)


def explain(run_id: RunId, as_json: AsJson = False, url: Url = "") -> None:
    """Explain why a run is in its state, and what will wake it."""
    with connect(url) as client:
        found = client.handle(run_id).explain()
    if as_json:
        print_json(found)
        return
    from stepwell.cli.views.run_view import explain_view  # noqa: PLC0415 - rich

    console().print(explain_view(found, datetime.now(UTC)))


def query(
    run_id: RunId,
    name: Annotated[str, argument("NAME", "The name in `@ctx.query`.")],
    as_json: AsJson = False,
    url: Url = "",
) -> None:
    """Call a query of a durable function, and print its answer."""
    from stepwell.client import run_calls  # noqa: PLC0415 - httpx

    with connect(url) as client:
        found = client.send(run_calls.query_answer(run_id, name))
    print_json(found if as_json else found.get("value"))


def stats(
    costs: Annotated[
        bool, typer.Option("--costs", help="Add what the newest ended runs of each workflow cost.")
    ] = False,
    as_json: AsJson = False,
    url: Url = "",
) -> None:
    """Count runs by status, workflow and wait."""
    with connect(url) as client:
        found = client.stats(costs=costs)
    if as_json:
        print_json(found)
        return
    from stepwell.cli.views.render import stats_view  # noqa: PLC0415 - rich

    console().print(stats_view(found))


def _show(found: JsonObject, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    from stepwell.cli.views.run_view import run_view  # noqa: PLC0415 - rich

    console().print(run_view(found, datetime.now(UTC)), soft_wrap=True)


def _exit_like(ended: JsonObject) -> None:
    """Exits with 1 if the run ended without completing, for scripts."""
    if has_ended(ended) and ended.get("status") != "completed":
        raise typer.Exit(exits.FAILED)
