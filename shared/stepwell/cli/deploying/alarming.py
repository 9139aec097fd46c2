"""Who is told of alarms: what `stepwell deploy` asks once, and `stepwell alarms`."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stepwell.cli import exits
from stepwell.cli.arguments import OfProfile, option
from stepwell.cli.folders import DEFAULT_STACK
from stepwell.cli.screen import console, print_json
from stepwell.cli.views.words import printable
from stepwell.errors import UserError
from stepwell.settings import environment, read_settings

if TYPE_CHECKING:
    from stepwell.aws.alarm_states import AlarmState

NOBODY = "none"
OUTPUT = "AlarmsTo"  # of the stack: who is told, from the deployment before
_ADDRESS = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")
_TONES = {"ALARM": "red", "OK": "green", "INSUFFICIENT_DATA": "dim"}


def with_address(
    given: str, contexts: Sequence[Mapping[str, Any]], before: Mapping[str, str], *, yes: bool
) -> tuple[Mapping[str, str], str]:
    """Returns the stack's properties with the address for alarms, and a note to print. `contexts`: the command's first.

    The address is the command's, the project's, that of the deployment before, or the answer of whoever deploys.
    """
    properties = contexts[0]
    if given:
        return {**properties, **_property(given)}, ""
    if any("alarm_email" in one or "alarms" in one or str(one.get("emulator")).lower() == "true" for one in contexts):
        return properties, ""
    address = before.get(OUTPUT, "")
    if not address and not yes and sys.stdin.isatty():
        address = typer.prompt(f"Who gets the alarms by mail? An address, or {NOBODY}", default=NOBODY)
    said = "" if _property(address or NOBODY) else "nobody is told of alarms; stepwell deploy --alarms-to ADDRESS"
    return {**properties, **_property(address or NOBODY)}, said


def _property(address: str) -> dict[str, str]:
    """Raises UserError for an address that cannot be."""
    if address == NOBODY:
        return {}
    if not _ADDRESS.fullmatch(address):
        raise UserError(f"{address!r} is not an address for alarms", code="bad_address",
                        hint=f"for example ops@example.com, or {NOBODY}")  # fmt: skip
    return {"alarm_email": address}


def alarms(
    stack: Annotated[str, typer.Option("--stack", metavar="NAME", help="The stack's name.")] = DEFAULT_STACK,
    profile: OfProfile = "",
    region: Annotated[str, option("--region", "NAME", "Default: that of STEPWELL_URL, else AWS_REGION.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """List a deployed stack's alarms, their states, and who is told. Exit status 1: one rings."""
    from stepwell.aws.alarm_states import alarm_states  # noqa: PLC0415 - boto3
    from stepwell.client.access import region_of  # noqa: PLC0415 - httpx

    region = region or region_of(read_settings().url) or environment().get("AWS_REGION", "")
    found, told = alarm_states(profile, region, stack)
    if as_json:
        print_json({"items": [one.as_json() for one in found], "told": told})
    else:
        _print(found, told)
    if any(one.state == "ALARM" for one in found):
        raise typer.Exit(exits.FAILED)


def _print(found: Sequence[AlarmState], told: Sequence[Mapping[str, Any]]) -> None:
    out = console()
    for one in found:
        out.print(printable(f"{one.state:17} {one.name}"), style=_TONES.get(one.state, ""))
        if one.state == "ALARM":
            out.print(printable(f"  since {one.since}: {one.means}"))
    who = [f"{one['address']}{'' if one['confirmed'] else ' (not confirmed: see its mail)'}" for one in told]
    out.print(printable(f"told: {', '.join(who) or 'nobody; stepwell deploy --alarms-to ADDRESS'}"))
