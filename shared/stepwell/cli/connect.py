"""Connects a command to the API."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from stepwell.cli.views.words import linked_person, links_of, next_command
from stepwell.settings import read_settings

if TYPE_CHECKING:
    from stepwell.cli.finding import FindingClient

LAST = "last"  # names the newest run
_given: ContextVar[str] = ContextVar("given", default="")  # the URL that the command was given
_run: ContextVar[str] = ContextVar("run", default="")  # the run that the command is about
_named: ContextVar[bool] = ContextVar("named", default=False)  # whether credentials tell the API who calls


def connect(url: str) -> FindingClient:
    """Connects to the API of the argument, else of STEPWELL_URL, else of this machine. Raises UserError."""
    from stepwell.cli import finding  # noqa: PLC0415 - httpx: 100 ms that `--help` does without

    client = finding.FindingClient(url)
    _given.set(url)
    _named.set(client.is_named)
    return client


def there(command: str) -> str:
    """Returns a command for the same API as this one: with its `--url`, unless that is the default."""
    url = _given.get()
    return f"{command} --url {shlex.quote(url)}" if url and url != read_settings().url else command


def all_there(text: str, commands: Iterable[str]) -> str:
    """Returns a text with the `--url` of this command in each command that takes one: `stepwell show --url URL RUN`.

    `commands`: their names. The API's hints name commands, and know of no option of the caller's.
    """
    if there("") == "":
        return text
    names = "|".join(map(re.escape, commands))
    is_left = r"(?![\w-]| --help|[^;,:]* --url )"  # else it is another word, or needs none, or has it
    return re.sub(rf"\bstepwell (?:{names}){is_left}", lambda found: there(found[0]), text)


def about(run_id: str) -> None:
    """Keeps the run that the command is about, for hints."""
    _run.set(run_id)


def with_run(text: str) -> str:
    """Returns a hint with the run that the command is about in its commands: `stepwell show r1` of one with RUN."""
    run_id = _run.get()
    return re.sub(r"(\bstepwell [a-z]+) RUN\b", lambda found: f"{found[1]} {run_id}", text) if run_id else text


def way_on(run: Mapping[str, Any]) -> str:
    """Returns the command that ends a run's wait, or tells what will, as the user can type it here."""
    if not _named.get() and (who := linked_person(run, person(""))):
        return f"{links_of(run, _given.get() or read_settings().url)} answers with the link of {who}"
    return there(next_command(run, person(""), is_named=_named.get()))


def person(by: str) -> str:
    """The person who acts: the value of `--by`, or the logged-in user."""
    return by or read_settings().user
