"""Renders history entries for people, one line each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from itertools import islice
from typing import Any

from rich.text import Text

from stepwell.cli.views.words import brief, error_words, exactly, parse_time, phrase, printable
from stepwell.engine.records import ROOT
from stepwell.values import dataclass

# Prefixes of `by` that name a message of the engine, which people need not see; any other `by` is a person.
_ENGINE = (
    "wake:",
    "timer:",
    "event:",
    "approved:",
    "rejected:",
    "heartbeat:",
    "deadline:",
    "start:",
    "cancel:",
    "terminate:",
    "dead:",
    "child:",
    "parent:",
    "redrive:",
)
_TONES = (  # the colour of a history entry, by the end of its type
    (("completed", "received", "fired", "approved"), "green"),
    (("failed", "rejected", "refused", "timed_out"), "red"),
    (("cancelled", "terminated", "compensated", "compensation.started"), "magenta"),
    (("retry_scheduled", "requested", "started", "blocked"), "yellow"),
)


PAGE = 200  # entries for which the widths of columns are taken together
_WIDEST = 32  # of a column: a longer name pushes what follows it


@dataclass(frozen=True, slots=True)
class Columns:
    """The widths of the columns of a history with ids."""

    at: int = 8
    kind: int = 20
    step: int = 16
    id: int = 7

    def fit(self, entries: Iterable[Mapping[str, Any]], now: datetime) -> Columns:
        """Returns columns that are wide enough for these entries too."""
        rows = [(self.at, self.kind, self.step, self.id), *(map(len, _cells(entry, now)) for entry in entries)]
        return Columns(*(min(max(widths), _WIDEST) for widths in zip(*rows, strict=True)))


def history_lines(entries: Iterable[Mapping[str, Any]], now: datetime) -> Iterator[Text]:
    """Renders entries with their ids, in columns that are as wide as a page of them needs.

    All are read first: whether a failure of a branch was tolerated is known at the end of the run.
    """
    found = [*entries]
    has_completed = any(entry.get("type") == "run.completed" for entry in found)
    left, columns = iter(found), Columns()
    while page := list(islice(left, PAGE)):
        columns = columns.fit(page, now)
        yield from (history_line(entry, now, columns, has_completed=has_completed) for entry in page)


def _cells(entry: Mapping[str, Any], now: datetime) -> tuple[str, str, str, str]:
    kind, step, place = (printable(str(entry.get(name) or "")) for name in ("type", "step", "id"))
    return exactly(parse_time(entry.get("at")), now), kind, step, place


def history_line(
    entry: Mapping[str, Any], now: datetime, columns: Columns | None = None, *, has_completed: bool = False
) -> Text:
    """Renders an entry as a line such as `14:02:11  step.completed  charge`; in columns with its id, `0@2.0`.

    `has_completed`: the run has, so that failures in its branches were tolerated.
    """
    at, kind, step, place = _cells(entry, now)
    widths = columns or Columns()
    is_tolerated = has_completed and kind.endswith("failed") and str(entry.get("token") or ROOT) != ROOT
    tone = "yellow" if is_tolerated else next((colour for ends, colour in _TONES if kind.endswith(ends)), "")
    line = Text(f"{at:<{widths.at}}", style="dim")
    line.append(f"  {kind:<{widths.kind}}", style=tone or "dim")
    if columns:  # the id names the token too
        line.append(f"  {step:<{widths.step}}", style="bold")
        line.append(f"  {place:<{widths.id}}", style="dim")
    else:
        token = str(entry.get("token") or ROOT)
        line.append("" if token == ROOT else f"  {printable(token)}", style="dim")
        line.append(step and f"  {step}", style="bold")
    line.append("  ! tolerated" if is_tolerated else "", style=tone)
    if (entry.get("attempt") or 1) > 1:
        line.append(f"  try {entry['attempt']}")
    if entry.get("to"):
        start = f"{phrase(entry['from'])} → " if entry.get("from") else "→ "
        line.append(f"  {start}{phrase(entry['to'])}", style="dim")
    by = str(entry.get("by") or "")
    for label, value in (("by ", "" if by.startswith(_ENGINE) else by), ("", _data_of(kind, entry.get("data")))):
        if words := brief(value):
            line.append(f"  {label}{words}", style="dim")
    line.rstrip()
    return line


def _data_of(kind: str, data: Any) -> Any:
    """Describes an entry's data in words where its JSON is hard to read; returns other data unchanged."""
    if not isinstance(data, Mapping):
        return data
    error = data.get("error")
    if kind == "children.started" and data.get("children"):
        end = f", until {data['until']}" if data.get("until") else ""
        return ", ".join(f"{one.get('name')} {one.get('run_id')}" for one in data["children"]) + end
    if kind == "compensation.started":
        why = error_words(error) if isinstance(error, Mapping) else data.get("reason")
        return f"instead of {phrase(data.get('status'))}{f': {why}' if why else ''}"
    if kind.startswith(("run.", "branch.", "step.", "child.", "compensation.")) and isinstance(error, Mapping):
        following = f", then {data['next']}" if data.get("next") else ""
        return _other_run(kind, data) + error_words({**error, "step": "", "attempts": 0}) + following
    if "taken_from" in data:
        return f"{brief(data.get('output'))}, taken from {data['taken_from'].partition(':')[0]}"
    if kind == "step.compensated":
        return f"{data.get('token')}@{data.get('slot')}  {brief(data.get('output'))}".rstrip()
    if kind == "compensation.retry_scheduled":
        return f"at {data.get('at')}"
    return data


def _other_run(kind: str, data: Mapping[str, Any]) -> str:
    """Names the run whose error an entry tells, if it is another one."""
    if kind.endswith(".redriven"):
        return f"from {data.get('run_id')}: "
    return f"{data.get('name')} {data.get('run_id')} {phrase(data.get('status'))}: " if "run_id" in data else ""
