"""`stepwell recover`: wakes what stands still, with a report."""

from __future__ import annotations

from collections import Counter
from typing import Annotated

import typer

from stepwell.cli.arguments import ResultAsJson, Url
from stepwell.cli.connect import connect, there
from stepwell.cli.screen import console, print_json
from stepwell.cli.views.words import printable

_WHY = {
    "overdue": "waited longer than they should",
    "no_progress": "stood still",
    "nothing_wakes": "waited for nothing, which is a defect of Stepwell",
    "unreadable": "cannot be read: {show} says which record",
}


def recover(
    every: Annotated[bool, typer.Option("--all", help="Arm every open run again, as after a restore.")] = False,
    as_json: ResultAsJson = False,
    url: Url = "",
) -> None:
    """Wake runs that stand still, and report what was found."""
    looked, rearmed, cursor, found, first = 0, 0, "", Counter[str](), []
    with connect(url) as client:
        while True:
            answer = client.recover(all=every, cursor=cursor)
            looked, rearmed = looked + answer["looked"], rearmed + answer["rearmed"]
            found.update(answer["woken"])
            first += answer["first"]
            cursor = answer["next_cursor"] or ""
            if not cursor:
                break
            typer.echo(f"{looked} runs looked at", err=True)
    if as_json:
        print_json({"looked": looked, "woken": dict(found), "first": first, "rearmed": rearmed})
        return
    again = f", {rearmed} armed again" if every else ""
    console().print(printable(f"{looked} runs looked at, {found.total()} woken{again}"))
    for why, count in sorted(found.items()):
        told = _WHY.get(why, why).format(show=there("stepwell show RUN"))
        console().print(printable(f"  {count} {told}"))
    for one in first:
        console().print(printable(f"  {one['run_id']}: {one['why']}"), style="dim")
