"""Follows a run to its end: a live view in a terminal, otherwise lines of history."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import typer

from stepwell.cli.connect import way_on
from stepwell.cli.views.words import awaited, awaited_words, parse_time, printable, until
from stepwell.client.errors import JsonObject, RunFailed, Unreachable
from stepwell.engine.records import ROOT, Status
from stepwell.limits import WAIT_ANSWER_SECONDS

if TYPE_CHECKING:
    from rich.console import Console, Group

    from stepwell.client import Client

ENDED = frozenset(status.value for status in Status if status.terminal)
POLL_SECONDS = 0.5
FIRST_POLL_SECONDS = 2.0  # before it is said what the run waits for
LOST_SECONDS = 30.0  # a dev server does not answer while it reloads
LAST_LINES = 8
_AGAIN = "a further try begins: what it emitted before is void"


def has_ended(run: JsonObject) -> bool:
    return run.get("status") in ENDED


def wait_until_ended(client: Client, run_id: str) -> JsonObject:
    """Waits until the run has ended, and returns it; says on stderr what it waits for, when that changes.

    Long polls keep this at a few calls a minute.
    """
    from stepwell.client import run_calls  # noqa: PLC0415 - httpx

    handle, told, seconds = client.handle(run_id), "", FIRST_POLL_SECONDS
    while True:
        with suppress(RunFailed):  # it has ended
            client.send(run_calls.result_answer(run_id, seconds))
        run = handle.view()
        if has_ended(run):
            return run
        why = _why_it_waits(run)
        if why and why != told:
            typer.echo(why, err=True)
        told, seconds = why, WAIT_ANSWER_SECONDS
        time.sleep(POLL_SECONDS)


def _why_it_waits(run: JsonObject) -> str:
    """What a run that waits needs; empty for one that goes on by itself."""
    if not run.get("waiting_for"):
        return ""
    at = f" at {', '.join(run['current_steps'])}" if run.get("current_steps") else ""
    event = f" {awaited_words(run)}" if run["waiting_for"] == "event" and run.get("waiting_events") else ""
    due = parse_time(run.get("waiting_until"))
    limit = f", {until(due, datetime.now(UTC))}" if due else ""
    return printable(f"{run['run_id']} waits{at} for {awaited(run)}{event}{limit}: {way_on(run)}")


def follow(client: Client, run_id: str, console: Console) -> JsonObject:
    """Shows the run until it has ended, and returns it."""
    return _live(client, run_id, console) if console.is_terminal else _lines(client, run_id, console)


def _live(client: Client, run_id: str, console: Console) -> JsonObject:
    from rich.live import Live  # noqa: PLC0415 - with the console

    last: deque[JsonObject] = deque(maxlen=LAST_LINES)
    run: JsonObject = {}
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
        for run, news in _changes(client, run_id):
            last.extend(entry for entry in news if entry.get("type") != "phase.changed")  # the view shows the phase
            live.update(_picture(run, last), refresh=True)
    return run


def _picture(run: JsonObject, last: deque[JsonObject]) -> Group:
    from rich.console import Group  # noqa: PLC0415 - with the console
    from rich.text import Text  # noqa: PLC0415

    from stepwell.cli.views.run_view import run_view  # noqa: PLC0415 - with the console
    from stepwell.cli.views.telling import history_line  # noqa: PLC0415 - with the console

    now = datetime.now(UTC)
    lines = [history_line(entry, now) for entry in last]
    for line in lines:
        line.no_wrap, line.overflow = True, "ellipsis"
    return Group(run_view(run, now), Text(""), *lines)


def _lines(client: Client, run_id: str, console: Console) -> JsonObject:
    from stepwell.cli.views.run_view import run_view  # noqa: PLC0415 - with the console
    from stepwell.cli.views.telling import history_line  # noqa: PLC0415 - with the console

    last: JsonObject = {}
    told = ""
    for run, news in _changes(client, run_id):
        last = run
        for entry in news:
            console.print(history_line(entry, datetime.now(UTC)), soft_wrap=True)
        if (why := _why_it_waits(run)) != told:
            told = why
            if why:
                console.print(why, style="yellow", soft_wrap=True)
    console.print()
    console.print(run_view(last, datetime.now(UTC)), soft_wrap=True)
    return last


class _Pieces:
    """What steps emit, as entries. A further try of a step begins with a mark, also where nothing is known to fail:
    its worker may have died.
    """

    def __init__(self) -> None:
        self._emitted: dict[tuple[str, str], str] = {}  # by token and step: when its last piece came
        self._ended: dict[tuple[str, str], list[str]] = {}  # … and when it was done, so that a next time is no try

    def told(self, entries: Iterable[JsonObject], pieces: Iterable[JsonObject]) -> Iterator[JsonObject]:
        """Yields the pieces, with marks. `entries`: the history that came with them."""
        for entry in entries:
            if entry.get("type") == "step.completed":
                self._ended.setdefault(_whose(entry), []).append(str(entry["at"]))
        for piece in pieces:
            before, now = self._emitted.get(_whose(piece)), str(piece["at"])
            is_done = before and any(before <= at <= now for at in self._ended.get(_whose(piece), ()))
            if piece.get("first") and before and not is_done:
                yield {**piece, "type": "step.output_void", "data": _AGAIN}
            self._emitted[_whose(piece)] = now
            yield {**piece, "type": "step.output"}


def _whose(entry: JsonObject) -> tuple[str, str]:
    return str(entry.get("token") or ROOT), str(entry.get("step"))


def _merged(entries: Iterable[JsonObject], pieces: Iterable[JsonObject]) -> Iterator[JsonObject]:
    """Yields entries in their order, each piece of output before the first of them that is later."""
    left = deque(pieces)
    for entry in entries:
        while left and str(left[0]["at"]) < str(entry["at"]):
            yield left.popleft()
        yield entry
    yield from left


def _changes(client: Client, run_id: str) -> Iterator[tuple[JsonObject, list[JsonObject]]]:
    """Yields the run and its new history entries, until the run has ended.

    Branches write side by side, so an entry may come before one that is known. What follows the root token's last
    entry is therefore read again, and told once.
    """
    handle, after, lost_at, emitted = client.handle(run_id), "", 0.0, ""
    seen: set[str] = set()
    pieces = _Pieces()
    while True:
        try:
            run = handle.view()  # before its history, so that no entry is missed at the end
            found = list(handle.history(after=after))
            output = handle.output(after=emitted)
        except Unreachable:
            lost_at = lost_at or time.monotonic()
            if not after or time.monotonic() - lost_at > LOST_SECONDS:
                raise
            time.sleep(POLL_SECONDS)
            continue
        lost_at = 0.0
        emitted = output["next_cursor"] or ""
        news = [entry for entry in found if entry["id"] not in seen]
        news = list(_merged(news, pieces.told(news, output["items"])))
        after = next((str(entry["id"]) for entry in reversed(found) if entry.get("token") == ROOT), after)
        seen = {str(entry["id"]) for entry in found}
        yield run, news
        if has_ended(run):
            return
        time.sleep(POLL_SECONDS)
