"""`stepwell webhook deliveries` and `replay`: lists and replays stored webhook deliveries."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from stepwell.cli import exits
from stepwell.cli.arguments import AsJson, Cursor, Limit, ResultAsJson, Url, argument, option, read_since
from stepwell.cli.completing import complete_kept_source
from stepwell.cli.connect import connect
from stepwell.cli.screen import console, print_json
from stepwell.cli.views.words import printable
from stepwell.client.errors import ApiProblem, JsonObject
from stepwell.errors import UserError
from stepwell.limits import PAGE_ITEMS, PAGE_ITEMS_MAX

if TYPE_CHECKING:
    from stepwell.client import Client

PASSED_OVER = frozenset({"already_taken", "already_replayed"})


def deliveries(
    source: Annotated[str, argument("SOURCE", "Default: all sources with `keep`.", complete_kept_source)] = "",
    since: Annotated[str, option("--since", "TIME", "Received since 2h, 7d, or a time.")] = "",
    limit: Limit = PAGE_ITEMS,
    cursor: Cursor = "",
    as_json: AsJson = False,
    url: Url = "",
) -> None:
    """List stored webhook deliveries, newest first. A source stores them with `keep` in webhooks.yaml."""
    with connect(url) as client:
        page = client.deliveries(source=source, since=read_since(since)).page(limit, cursor)
    if as_json:
        print_json(page.document)
        return
    from stepwell.cli.views.render import deliveries_table  # noqa: PLC0415 - rich

    if page.items:
        out = console()
        out.print(deliveries_table(page.items, datetime.now(UTC), out.width))
    else:
        typer.echo("no deliveries; a source stores them with `keep: 7d` in webhooks.yaml", err=True)
    if page.next_cursor:
        typer.echo(f"there are more: --cursor {page.next_cursor}", err=True)


def replay(
    source: Annotated[str, argument("SOURCE", "Its name in webhooks.yaml.", complete_kept_source)],
    delivery: Annotated[str, argument("DELIVERY", "Its id, as `deliveries` lists it, or a beginning.")] = "",
    since: Annotated[str, option("--since", "TIME", "All received since 2h, or a time.")] = "",
    again: Annotated[
        bool, typer.Option("--again", help="Also replay deliveries that already became an event or a run.")
    ] = False,
    as_json: ResultAsJson = False,
    url: Url = "",
) -> None:
    """Replay stored deliveries with today's webhooks.yaml. They get new ids.

    Skips a delivery that already became an event or a run, unless --again. Exit status 1: some could not be mapped.
    """
    if bool(delivery) == bool(since):
        hint = f"to list deliveries: stepwell webhook deliveries {source}"
        raise UserError("give either a delivery or --since", code="bad_usage", hint=hint)
    with connect(url) as client:
        if delivery:
            _tell([_one(client, source, delivery, again=again)], as_json)
            return
        found = [one["id"] for one in client.deliveries(source=source, since=read_since(since))]
        first_to_last = dict.fromkeys(reversed(found))  # a sender's retry on another day is listed once more
        results = [_tried(client, source, one, again=again) for one in first_to_last]
    _tell(results, as_json)
    if any("refused" in one for one in results):
        raise typer.Exit(exits.FAILED)


def _one(client: Client, source: str, delivery: str, *, again: bool) -> JsonObject:
    """Replays one, which may be given by the beginning of its id."""
    try:
        return _replayed(delivery, client.replay_delivery(source, delivery, again=again))
    except ApiProblem as missing:
        if missing.code != "unknown_delivery" or not (whole := _whole(client, source, delivery)):
            raise
    return _replayed(whole, client.replay_delivery(source, whole, again=again))


def _whole(client: Client, source: str, beginning: str) -> str:
    """The id of the newest deliveries that begins so; "" if there is none. Raises UserError if there are several."""
    ids = dict.fromkeys(str(one["id"]) for one in client.deliveries(source=source).page(PAGE_ITEMS_MAX).items)
    found = [one for one in ids if one.startswith(beginning)]
    if len(found) > 1:
        message = f"{len(found)} deliveries have an id that begins with {beginning}: {', '.join(found[:3])}"
        raise UserError(message, code="ambiguous_delivery", hint="give more of the id")
    return found[0] if found else ""


def _tried(client: Client, source: str, delivery: str, *, again: bool) -> JsonObject:
    """Replays one of several; a refused delivery does not stop the others."""
    try:
        return _replayed(delivery, client.replay_delivery(source, delivery, again=again))
    except ApiProblem as problem:
        if problem.status >= 500:
            raise
        kind = "passed_over" if problem.code in PASSED_OVER else "refused"
        return {"delivery": delivery, kind: problem.message}


def _replayed(delivery: str, answer: JsonObject) -> JsonObject:
    return {"delivery": delivery, **answer}


def _tell(results: list[JsonObject], as_json: bool) -> None:
    if as_json:
        print_json({"items": results})
        return
    words = {"event_id": "sent as event {}", "run_id": "started {}", "ignored": "ignored: `match` is false",
             "passed_over": "skipped: {}", "refused": "refused: {}"}  # fmt: skip
    for one in results:
        told = next(words[name].format(value) for name, value in one.items() if name in words)
        console().print(printable(f"{one['delivery']}: {told}"), soft_wrap=True)
    if not results:
        typer.echo("no deliveries", err=True)
