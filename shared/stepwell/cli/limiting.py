"""`stepwell limits`: which limits there are, who holds their permits, and who waits for one."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from stepwell.cli.arguments import AsJson, Cursor, Url, argument, option
from stepwell.cli.completing import complete_limit
from stepwell.cli.connect import connect
from stepwell.cli.screen import console, print_json
from stepwell.cli.views.words import when


def limits(
    name: Annotated[str, argument("LIMIT", "A limit's name: shows who holds it, and who waits.", complete_limit)] = "",
    key: Annotated[str, option("--key", "KEY", "Of a limit with a key: the value whose line is shown.")] = "",
    cursor: Cursor = "",
    as_json: AsJson = False,
    url: Url = "",
) -> None:
    """List the limits of steps and runs. With a name: who holds its permits, and who waits."""
    if (key or cursor) and not name:
        raise typer.BadParameter("name the limit whose line you mean", param_hint="LIMIT")
    with connect(url) as client:
        one = client.limit(name, key=key, cursor=cursor) if name else None
        found = [] if one is not None else client.limits()
    if as_json:
        print_json(one if one is not None else {"items": found, "next_cursor": None})
        return
    from stepwell.cli.views.render import limits_table, line_table  # noqa: PLC0415 - rich

    if one is not None and not one["under_way"] and not one["items"]:
        typer.echo(_nobody(one, key), err=True)
    elif one is not None:
        console().print(line_table(one))
        if one.get("next_cursor"):
            typer.echo(f"there are more: --cursor {one['next_cursor']}", err=True)
    elif not found:
        typer.echo("no limits", err=True)
    else:
        console().print(limits_table(found, datetime.now(UTC)))


def _nobody(line: Mapping[str, Any], key: str) -> str:
    """Returns what there is to say of an empty line. A step may name a key for a limit of steps."""
    name = f"{line['name']} for {key}" if key else line["name"]
    by_key = line["of"] == "steps" and not key
    more = f"; of steps that name a key, `stepwell limits {name} --key KEY` shows the line" if by_key else ""
    if line.get("rate_limit") and line.get("concurrency") is None:
        turn = f"; its next turn is at {when(line['next_turn_at'], datetime.now(UTC))}" if line["next_turn_at"] else ""
        rate = f"{name} is a rate alone, so nobody holds it, and no line shows who waits"
        return f"{rate}{turn}; `stepwell explain RUN` tells a run's turn{more}"
    return f"nobody holds {name}, and nobody waits for it{more}"
