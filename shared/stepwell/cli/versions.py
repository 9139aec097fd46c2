"""The commands on a workflow's versions: which is deployed, which still have open runs, and their aliases."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from stepwell.cli.arguments import AsJson, Url, WorkflowName, argument, option
from stepwell.cli.connect import connect
from stepwell.cli.screen import console, print_json, report
from stepwell.cli.views.words import counted, kind_words, phrase, printable, when
from stepwell.limits import OPEN_RUNS, OPEN_RUNS_MAX

_SHOWN = 12  # characters of a version


def versions(
    workflow: WorkflowName,
    most: Annotated[
        int, typer.Option("--most", min=1, max=OPEN_RUNS_MAX, help="How many open runs are read, the newest first.")
    ] = OPEN_RUNS,
    as_json: AsJson = False,
    url: Url = "",
) -> None:
    """Show which versions of a workflow have open runs. Also what these wait for, and which version is deployed."""
    with connect(url) as client:
        found = client.versions(workflow, most=most)
    if as_json:
        print_json(found)
    else:
        _show(found, most)


def alias(
    workflow: WorkflowName,
    name: Annotated[str, argument("ALIAS", "Its name, such as stable.")],
    version: Annotated[
        str, option("--version", "HASH|NUMBER|ALIAS", "The version that it names; default the deployed one.")
    ] = "",
    drop: Annotated[bool, typer.Option("--drop", help="Delete the alias.")] = False,
    as_json: AsJson = False,
    url: Url = "",
) -> None:
    """Name a version of a workflow, for starts, redrives and forks."""
    if drop and version:
        raise typer.BadParameter("an alias that is deleted names no version", param_hint="--drop")
    with connect(url) as client:
        if drop:
            client.delete_alias(workflow, name)
            told: Mapping[str, Any] = {"workflow": workflow, "alias": name, "version": None}
        else:
            told = client.alias(workflow, name, version)
    what = "no version" if drop else f"version {_short(told['version'])}"
    report(told, as_json, f"{name} names {what} of {workflow}{' any more' if drop else ''}")


def _show(found: Mapping[str, Any], most: int) -> None:
    from rich.table import Table  # noqa: PLC0415 - with the console

    out, now = console(), datetime.now(UTC)
    table = Table("version", "open", "statuses", "wait for", "oldest", "", box=None, pad_edge=False)
    table.columns[0].no_wrap = True
    for one in found["items"]:
        statuses = ", ".join(f"{count} {phrase(status)}" for status, count in one["statuses"].items())
        waits = ", ".join(_wait_words(wait) for wait in one["waits"])
        names = ", ".join([*(["deployed"] if one["deployed"] else []), *one["aliases"]])
        short, oldest = _numbered(one), _oldest(one["oldest"], now)
        table.add_row(short, str(one["runs"]), statuses, printable(waits), printable(oldest), printable(names))
    out.print(table)
    if not found["is_whole"]:
        out.print(f"the newest {most} open runs are counted; --most takes more", style="yellow")
    old = sum(one["runs"] for one in found["items"] if not one["deployed"])
    older = "1 open run goes on with an older version" if old == 1 else f"{old} open runs go on with older versions"
    told = older if old else "every open run has the deployed version"
    if not any(one["deployed"] for one in found["items"]):
        told = f"no version is deployed; {counted(old, 'open runs') if old else 'no run is open'}"
    out.print(printable(f"{found['workflow']}: {told}"), style="yellow" if old else "green", soft_wrap=True)


def _wait_words(wait: Mapping[str, Any]) -> str:
    return f"{wait['runs']} {kind_words(wait['waiting_for'])} at {wait['step']}"


def _oldest(run: Mapping[str, Any] | None, now: datetime) -> str:
    return f"{run['run_id']} {when(run['created_at'], now)}" if run else ""


def _numbered(one: Mapping[str, Any]) -> str:
    """A version, with the number that the author of a durable function gave it."""
    number = one.get("version_number")
    return _short(one["version"]) + (f" ({number})" if number else "")


def _short(version: str) -> str:
    return version.removeprefix("sha256:")[:_SHOWN]
