"""`stepwell failures`: failed runs, grouped by what went wrong."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import islice
from typing import Annotated, Any

import typer

from stepwell.cli.arguments import AsJson, Since, Url, option, read_since
from stepwell.cli.completing import complete_workflow
from stepwell.cli.connect import connect, there
from stepwell.cli.screen import console, print_json
from stepwell.client.errors import JsonObject

GROUPS = 10_000  # that are read at most, over all pages


def failures(
    workflow: Annotated[str, option("--workflow -w", "NAME", "Only runs of this workflow.", complete_workflow)] = "",
    since: Since = "",
    as_json: AsJson = False,
    url: Url = "",
) -> None:
    """Group failed runs by their error and step, with counts."""
    from stepwell.cli.finding import check_workflow  # noqa: PLC0415 - httpx

    with connect(url) as client:
        groups = merged(islice(client.failures(workflow=workflow, since=read_since(since)), GROUPS))
        if workflow and not groups:
            check_workflow(client, workflow)
    if as_json:
        print_json({"items": groups, "next_cursor": None})
    elif groups:
        from stepwell.cli.views.render import failures_table  # noqa: PLC0415 - rich

        out = console()
        out.print(failures_table(groups, datetime.now(UTC), out.width))
        typer.echo(f"{there('stepwell runs --failure FINGERPRINT')} lists a group's runs", err=True)
    else:
        typer.echo("no run failed", err=True)


def merged(found: Iterable[JsonObject]) -> list[JsonObject]:
    """Returns the groups of all pages, the largest first."""
    groups: dict[tuple[Any, Any], JsonObject] = {}
    for one in found:
        other = groups.setdefault((one["workflow"], one["fingerprint"]), {**one, "count": 0})
        last = max(one, other, key=lambda group: str(group["last_at"]))
        groups[one["workflow"], one["fingerprint"]] = {
            **last,
            "count": other["count"] + one["count"],
            "first_at": min(str(one["first_at"]), str(other["first_at"])),
        }
    return sorted(groups.values(), key=lambda group: -int(group["count"]))
