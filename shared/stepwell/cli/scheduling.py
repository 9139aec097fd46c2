"""`stepwell schedules` and `stepwell schedule`: lists schedules, pauses one, ends its pause, or starts its run now."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from stepwell.cli.arguments import AsJson, By, Reason, Url, argument, read_time
from stepwell.cli.completing import complete_schedule
from stepwell.cli.connect import connect, person
from stepwell.cli.runs.acts import id_of
from stepwell.cli.screen import console, print_json, report
from stepwell.cli.views.words import held_text, when_in

Name = Annotated[str, argument("SCHEDULE", "Its name, as `stepwell schedules` has it.", complete_schedule)]


def schedules(as_json: AsJson = False, url: Url = "") -> None:
    """List the schedules: their workflows and their next times."""
    with connect(url) as client:
        found = client.schedules()
    if as_json:
        print_json({"items": found, "next_cursor": None})
        return
    from stepwell.cli.views.render import schedules_table  # noqa: PLC0415 - rich

    if not found:
        typer.echo("no schedules", err=True)
        return
    console().print(schedules_table(found, datetime.now(UTC)))


def pause(name: Name, reason: Reason = "", by: By = "", as_json: AsJson = False, url: Url = "") -> None:
    """Have a schedule start no runs until its pause is ended."""
    with connect(url) as client:
        found = client.pause_schedule(name, reason, by=person(by))
    held = found.get("paused")
    if found.get("paused_before") and held:
        report(found, as_json, f"nothing was changed: {name} is {held_text(held)}")
    else:
        report(found, as_json, f"paused {name}: it starts no runs")


def unpause(name: Name, by: By = "", as_json: AsJson = False, url: Url = "") -> None:
    """End the pause of a schedule. What it missed is not made up for."""
    with connect(url) as client:
        found = client.unpause_schedule(name, by=person(by))
    following = when_in(found.get("timezone"), (found.get("next") or [""])[0], datetime.now(UTC))
    report(found, as_json, f"{name} fires again{f', next at {following}' if following else ''}")


def fire(
    name: Name,
    at: Annotated[
        str, typer.Option(metavar="TIME", help="Fire it for this time, which has passed: 2026-01-31T09:00:00Z.")
    ] = "",
    as_json: AsJson = False,
    url: Url = "",
) -> None:
    """Start a schedule's run now, or for a time that has passed."""
    fired_at = read_time("--at", at)
    with connect(url) as client:
        found = client.fire_schedule(name, fired_at)
    for_time = f", for {fired_at}" if fired_at else ""  # with its offset: a time without one is this machine's
    report(found, as_json, f"{id_of(found, name)} is {found.get('status')}{for_time}")
