"""`stepwell dlq`: messages that nobody could take; sends them back, or deletes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from stepwell.cli import exits
from stepwell.cli.arguments import AsJson, ErrorsAsJson, Url, argument
from stepwell.cli.connect import connect
from stepwell.cli.screen import console, print_json, report
from stepwell.cli.views.words import counted, printable
from stepwell.client.errors import JsonObject
from stepwell.errors import UserError
from stepwell.limits import PAGE_ITEMS_MAX

if TYPE_CHECKING:
    from stepwell.client import Client

LetterId = Annotated[str, argument("ID", "One that `dlq list` shows, or its beginning.")]
LetterIds = Annotated[list[str] | None, argument("ID", "Those that `dlq list` shows, or their beginnings.")]


def list_letters(as_json: AsJson = False, url: Url = "") -> None:
    """List messages that nobody could take, and why."""
    with connect(url) as client:
        found = client.dead_letters()
    if as_json:
        print_json({"items": found, "next_cursor": None})
        return
    for one in found:
        console().print(printable(_line(one)))
        console().print(printable(f"  {one['why']}"), style="dim")
    if not found:
        console().print("no dead letters")
    if len(found) >= PAGE_ITEMS_MAX:
        typer.echo(f"these are {len(found)}; there may be more, which are listed once these are gone", err=True)


def show_letter(letter_id: LetterId, as_json: ErrorsAsJson = False, url: Url = "") -> None:
    """Show a message that nobody could take, as JSON."""
    with connect(url) as client:
        print_json(client.dead_letter(_whole(client, [letter_id])[0]))


def redrive_letters(
    ids: LetterIds = None,
    every: Annotated[bool, typer.Option("--all", help="All that there are.")] = False,
    as_json: AsJson = False,
    url: Url = "",
) -> None:
    """Send dead letters back to their queues."""
    if bool(ids) == every:
        raise typer.BadParameter("name dead letters, or say --all", param_hint="ID")
    with connect(url) as client:
        answer = client.redrive_dead_letters(_whole(client, ids or ()))
        sent = more = list(answer["sent"])
        while every and more and answer["left"]:  # a deployed API sends some hundreds in a call
            answer = client.redrive_dead_letters()
            more = answer["sent"]
            sent += more
    answer = {**answer, "sent": sent}
    _finish(answer, as_json, f"sent {counted(len(sent), 'messages')} back", "stays: it cannot be read, or is not there")


def delete_letters(
    ids: LetterIds = None,
    unreadable: Annotated[bool, typer.Option("--unreadable", help="All that cannot be read.")] = False,
    as_json: AsJson = False,
    url: Url = "",
) -> None:
    """Delete dead letters for good. An event among them is lost."""
    if bool(ids) == unreadable:
        raise typer.BadParameter("name dead letters, or say --unreadable", param_hint="ID")
    with connect(url) as client:
        answer = client.delete_dead_letters(_whole(client, ids or ()))
    _finish(answer, as_json, f"deleted {counted(len(answer['deleted']), 'messages')}", "is not there")


def _finish(answer: JsonObject, as_json: bool, told: str, left: str) -> None:
    """Reports what was done, and of each message that was left why. Raises Exit if there are such."""
    report(answer, as_json, "\n".join([told, *(f"  {one} {left}" for one in answer["left"])]))
    if answer["left"]:
        raise typer.Exit(exits.FAILED)


def _whole(client: Client, given: Sequence[str]) -> list[str]:
    """The ids that begin so. They are listed once: on AWS that takes seconds. Raises UserError as below."""
    ids = [str(one["id"]) for one in client.dead_letters()] if given else []
    return [_beginning(ids, one) for one in given]


def _beginning(ids: Sequence[str], given: str) -> str:
    """The id that begins so, if there is one. Raises UserError if there are several."""
    found = [given] if given in ids else [one for one in ids if one.startswith(given)]
    if len(found) > 1:
        message = f"{len(found)} dead letters have an id that begins with {given}: {', '.join(found[:3])}"
        raise UserError(message, code="ambiguous_letter", hint="give more of the id")
    return found[0] if found else given


def _line(one: JsonObject) -> str:
    event = one.get("event") or {}
    about = one.get("run_id") or (f"event {event['name']} {event['id']}" if event else "")
    since = f" since {one['sent_at']}" if one.get("sent_at") else ""
    deliveries = f", {one['deliveries']} deliveries" if one["deliveries"] else ""
    return f"{one['id']}  {one['type']}  {about}  from {one['queue'] or '?'}{since}{deliveries}"
