"""`stepwell logs`: what the code of a run logged and printed, here or on AWS."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from stepwell.cli.arguments import RunId, Url
from stepwell.cli.connect import connect
from stepwell.cli.runs.watch import LOST_SECONDS, has_ended
from stepwell.cli.screen import console
from stepwell.cli.views.words import exactly, parse_time, printable
from stepwell.client.errors import Unreachable
from stepwell.limits import LOG_LATE_MS

if TYPE_CHECKING:
    from stepwell.client import Client
    from stepwell.client.errors import JsonObject

POLL_SECONDS = 1.0
_LATE = timedelta(milliseconds=LOG_LATE_MS)
_TONES = {"warning": "yellow", "error": "red", "critical": "red"}


def logs(
    run_id: RunId,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the run ends.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print each line as JSON.")] = False,
    url: Url = "",
) -> None:
    """Show what a run's steps logged. With `stepwell dev`, also what they printed."""
    with connect(url) as client:
        run = client.handle(run_id).view()
        count = 0
        for line in _lines(client, run, follow=follow):
            _print(line, as_json)
            count += 1
    if not count:
        typer.echo("the run logged nothing, or its lines were dropped", err=True)


def _lines(client: Client, run: JsonObject, *, follow: bool) -> Iterator[JsonObject]:
    """The lines in order, each once; with `follow`, until the run has ended."""
    since, seen, lost_at = "", set[str](), 0.0
    while True:
        is_over = not follow or has_ended(run)
        try:
            found = [one for one in client.handle(run["run_id"]).logs(since=since) if one["id"] not in seen]
            run = run if is_over else client.handle(run["run_id"]).view()
        except Unreachable:
            lost_at = lost_at or time.monotonic()
            if not follow or time.monotonic() - lost_at > LOST_SECONDS:
                raise
            time.sleep(POLL_SECONDS)
            continue
        lost_at = 0.0
        for line in sorted(found, key=lambda one: str(one["at"])):  # those of several pools come one after the other
            seen.add(line["id"])
            since = _late(line["at"])
            yield line
        if is_over:
            return
        time.sleep(POLL_SECONDS)


def _late(at: str) -> str:
    """Returns the time before which no line comes any more after one of this time."""
    moment = parse_time(at)
    return (moment - _LATE).isoformat() if moment else ""


def _print(line: JsonObject, as_json: bool) -> None:
    if as_json:
        told = {name: line.get(name) for name in ("at", "level", "step", "branch", "attempt", "message")}
        typer.echo(json.dumps(told))  # in ASCII, as all JSON here
        return
    moment, step = parse_time(line["at"]), " ".join(str(one) for one in (line["step"], line.get("branch")) if one)
    attempt = f" try {line['attempt']}" if line["attempt"] > 1 else ""
    out = console()
    out.print(exactly(moment, datetime.now(UTC)) if moment else "", style="dim", end="  ")
    out.print(f"{printable(step)}{attempt}  " if step else "", style="bold", end="", markup=False)
    text = "\n".join(printable(one) for one in str(line["message"]).split("\n"))
    out.print(text, style=_TONES.get(line["level"]), soft_wrap=True, markup=False, highlight=False)
