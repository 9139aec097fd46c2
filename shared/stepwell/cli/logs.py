"""`stepwell logs`: what the code of a run logged and printed, here or on AWS."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

from stepwell.cli.arguments import RunId, Url
from stepwell.cli.connect import connect
from stepwell.cli.folders import EMULATED, EMULATOR
from stepwell.cli.screen import console
from stepwell.cli.watch import has_ended
from stepwell.cli.words import exactly, parse_time, printable
from stepwell.engine.names import iso
from stepwell.limits import SECOND_MS
from stepwell.runtime.stores.log_lines import LogLine, ReadLines
from stepwell.settings import read_settings

if TYPE_CHECKING:
    from stepwell.client import Client
    from stepwell.client.errors import JsonObject

POLL_SECONDS = 1.0
LATE_MS = 60_000  # CloudWatch takes a line in so much later at the most
DEFAULT_STACK = "Stepwell"
_TONES = {"warning": "yellow", "error": "red", "critical": "red"}


def logs(
    run_id: RunId,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the run ends.")] = False,
    data: Annotated[
        Path | None, typer.Option("--data", metavar="DIR", show_default=False, help="Of the dev server; .stepwell.")
    ] = None,
    stack: Annotated[str, typer.Option("--stack", metavar="NAME", help="On AWS: the stack.")] = DEFAULT_STACK,
    profile: Annotated[
        str, typer.Option("--profile", metavar="NAME", show_default=False, help="AWS profile; default AWS_PROFILE.")
    ] = "",
    region: Annotated[
        str, typer.Option("--region", metavar="NAME", show_default=False, help="Default: that of the API's URL.")
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print each line as JSON.")] = False,
    url: Url = "",
) -> None:
    """Show what a run's steps logged and printed."""
    with connect(url) as client:
        run = client.handle(run_id).view()
        read = _reader(run["run_id"], url or read_settings().url, data, stack, profile, region)
        count = 0
        for line in _lines(client, run, read, follow=follow):
            _print(line, as_json)
            count += 1
    if not count:
        typer.echo("the run logged nothing, or its lines were dropped", err=True)


def _reader(run_id: str, url: str, data: Path | None, stack: str, profile: str, region: str) -> ReadLines:
    host = urlsplit(url).hostname or ""
    if host in {"127.0.0.1", "localhost", "::1"}:
        return _reader_here(run_id, data or read_settings().data_dir, stack)
    from stepwell.aws import run_logs as there  # noqa: PLC0415 - boto3
    from stepwell.client.access import region_of  # noqa: PLC0415 - httpx

    return there.lines_of(profile, region or region_of(url), stack, run_id)


def _reader_here(run_id: str, data: Path, stack: str) -> ReadLines:
    """Reads what `dev` kept and, while `dev --aws` runs, what its emulator has. A run is of one of them."""
    from stepwell.aws.emulator import client_of, running_in  # noqa: PLC0415 - only where they are asked for
    from stepwell.local import run_logs as here  # noqa: PLC0415 - as above

    kept = here.lines_of(data, run_id)
    url = running_in(data / EMULATED / EMULATOR)
    if not url:
        return kept
    from stepwell.aws import run_logs as there  # noqa: PLC0415 - boto3

    emulated = there.reader(client_of(url, "cloudformation"), client_of(url, "logs"), stack, run_id)
    return lambda since_ms: [*kept(since_ms), *emulated(since_ms)]


def _lines(client: Client, run: JsonObject, read: ReadLines, *, follow: bool) -> Iterator[LogLine]:
    """The lines in order, each once; with `follow`, until the run has ended."""
    created = parse_time(run["created_at"]) or datetime.fromtimestamp(0, UTC)
    since_ms, seen = int(created.timestamp() * SECOND_MS), set[str]()
    while True:
        is_over = not follow or has_ended(run)
        for line in read(since_ms):
            if line.id not in seen:
                seen.add(line.id)
                since_ms = max(since_ms, line.at_ms - LATE_MS)
                yield line
        if is_over:
            return
        time.sleep(POLL_SECONDS)
        run = client.handle(run["run_id"]).view()


def _print(line: LogLine, as_json: bool) -> None:
    at = iso(line.at_ms)
    if as_json:
        told = {"at": at, "level": line.level, "step": line.step, "attempt": line.attempt, "message": line.message}
        typer.echo(json.dumps(told, ensure_ascii=False))
        return
    moment = datetime.fromtimestamp(line.at_ms / SECOND_MS, UTC)
    attempt = f" try {line.attempt}" if line.attempt > 1 else ""
    out = console()
    out.print(exactly(moment, datetime.now(UTC)), style="dim", end="  ")
    out.print(f"{printable(line.step)}{attempt}  " if line.step else "", style="bold", end="", markup=False)
    text = "\n".join(printable(one) for one in line.message.split("\n"))
    out.print(text, style=_TONES.get(line.level), soft_wrap=True, markup=False, highlight=False)
