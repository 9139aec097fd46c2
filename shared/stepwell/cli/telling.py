"""Renders history entries for people, one line each."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from rich.text import Text

from stepwell.cli.words import brief, error_words, exactly, parse_time, phrase, printable
from stepwell.engine.records import ROOT

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


def history_line(entry: Mapping[str, Any], now: datetime, *, with_id: bool = False) -> Text:
    """Renders an entry as a line such as `14:02:11  step.completed  charge`; with its id, `0@2.0`, after the step."""
    kind = printable(str(entry.get("type") or ""))
    tone = next((colour for ends, colour in _TONES if kind.endswith(ends)), "")
    moment = parse_time(entry.get("at"))
    line = Text(f"{exactly(moment, now):<8}", style="dim")
    line.append(f"  {kind:<20}", style=tone or "dim")
    step = printable(str(entry.get("step") or ""))
    if with_id:  # it names the token too
        line.append(f"  {step:<16}", style="bold")
        line.append(f"  {printable(str(entry.get('id') or '')):<7}", style="dim")
    else:
        token = str(entry.get("token") or ROOT)
        line.append("" if token == ROOT else f"  {printable(token)}", style="dim")
        line.append(step and f"  {step}", style="bold")
    if (entry.get("attempt") or 1) > 1:
        line.append(f"  try {entry['attempt']}")
    if entry.get("to"):
        start = f"{phrase(entry['from'])} → " if entry.get("from") else "→ "
        line.append(f"  {start}{phrase(entry['to'])}", style="dim")
    by = str(entry.get("by") or "")
    for label, value in (("by ", "" if by.startswith(_ENGINE) else by), ("", _data_of(kind, entry.get("data")))):
        if words := brief(value):
            line.append(f"  {label}{words}", style="dim")
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
