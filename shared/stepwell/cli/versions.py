"""The command that shows a workflow's versions: which is deployed, and which runs still go on with older ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import Annotated, Any

import typer

from stepwell.cli.arguments import AsJson, Url
from stepwell.cli.completing import complete_workflow
from stepwell.cli.connect import connect
from stepwell.cli.screen import console, print_json
from stepwell.cli.words import printable
from stepwell.engine.records import Status

OPEN = tuple(status.value for status in Status if not status.terminal)
MOST_RUNS = 1_000
_SHOWN = 12  # characters of a version


@dataclass
class Version:
    """A version and its open runs."""

    version: str
    is_deployed: bool
    runs: int = 0
    statuses: dict[str, int] = field(default_factory=dict)
    oldest: str = ""  # when the oldest of them was created
    oldest_run: str = ""


def versions(
    workflow: Annotated[
        str,
        typer.Argument(metavar="WORKFLOW", help="The workflow's name.", show_default=False,
                       autocompletion=complete_workflow),
    ],
    most: Annotated[int, typer.Option("--most", min=1, help="How many open runs, the newest first.")] = MOST_RUNS,
    as_json: AsJson = False,
    url: Url = "",
) -> None:  # fmt: skip
    """Show which versions of a workflow have open runs, which one is deployed, and what has drained."""
    from stepwell.client import calls  # noqa: PLC0415 - httpx

    with connect(url) as client:
        deployed = str(client.send(calls.workflow(workflow))["version"])
        runs = iter(client.runs(workflow=workflow, status=OPEN))
        found = by_version(islice(runs, most), deployed)
        is_whole = next(runs, None) is None
    if as_json:
        print_json({"workflow": workflow, "is_whole": is_whole, "versions": [asdict(one) for one in found]})
    else:
        _show(workflow, found, None if is_whole else most)


def by_version(runs: Iterable[Mapping[str, Any]], deployed: str) -> list[Version]:
    """Groups open runs, the newest first, by version: the deployed one first, then those with the most runs."""
    found = {deployed: Version(deployed, is_deployed=True)}
    for run in runs:
        version = str(run["version"])
        one = found.setdefault(version, Version(version, is_deployed=False))
        one.runs += 1
        status = str(run["status"])
        one.statuses[status] = one.statuses.get(status, 0) + 1
        one.oldest, one.oldest_run = str(run["created_at"]), str(run["run_id"])
    return sorted(found.values(), key=lambda one: (not one.is_deployed, -one.runs))


def _show(workflow: str, found: list[Version], most: int | None) -> None:
    from rich.table import Table  # noqa: PLC0415 - with the console

    out = console()
    table = Table("version", "open runs", "statuses", "oldest", "", box=None, pad_edge=False)
    for one in found:
        statuses = ", ".join(f"{count} {status}" for status, count in Counter(one.statuses).most_common())
        oldest = f"{one.oldest} {one.oldest_run}" if one.runs else ""
        short = one.version.removeprefix("sha256:")[:_SHOWN]
        table.add_row(short, str(one.runs), statuses, printable(oldest), "deployed" if one.is_deployed else "")
    out.print(table)
    old = sum(one.runs for one in found if not one.is_deployed)
    if most is not None:
        out.print(f"the newest {most} open runs are counted; --most takes more", style="yellow")
    told = f"{old} open runs go on with older versions" if old else "every open run has the deployed version"
    out.print(printable(f"{workflow}: {told}"), style="yellow" if old else "green", soft_wrap=True)
