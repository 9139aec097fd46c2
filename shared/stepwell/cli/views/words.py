"""Formats times, durations and values for people."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from stepwell.definition.durations import span
from stepwell.violations import worded

_APPROVAL = re.compile(r"approval(?:_\d+)?")  # the name of one of several in a wait
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")


def parse_time(text: object) -> datetime | None:
    """Parses a time of the API; returns None for anything else."""
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def clock(moment: datetime, now: datetime, zone: tzinfo | None = None) -> str:
    """Formats a time in a time zone, by default the reader's, with its weekday or date unless it is today."""
    local = moment.astimezone(zone)
    if abs(moment - now) < timedelta(minutes=1):
        return f"{local:%H:%M:%S}"
    if local.date() == now.astimezone(zone).date():
        return f"{local:%H:%M}"
    if abs(moment - now) < timedelta(days=1):
        return f"{local:%a %H:%M}"
    return f"{local:%Y-%m-%d %H:%M}"


def exactly(moment: datetime | None, now: datetime) -> str:
    """Formats a time to the second."""
    if moment is None:
        return ""
    local = moment.astimezone()
    return f"{local:%H:%M:%S}" if local.date() == now.astimezone().date() else f"{local:%Y-%m-%d %H:%M:%S}"


def local_times(text: str, now: datetime) -> str:
    """Replaces the times of the API in a text with the reader's own."""
    return _TIME.sub(lambda found: exactly(parse_time(found[0]), now), text)


def until(moment: datetime, now: datetime) -> str:
    """Formats a time limit: `until 14:02 (in 23 h)`, or `due since 14:02 (5 min ago)` if it has passed."""
    away = (moment - now).total_seconds()
    if away < 0:
        return f"due since {clock(moment, now)} ({span(-away)} ago)"
    return f"until {clock(moment, now)} (in {_coarse(away)})"


def ago(moment: datetime, now: datetime) -> str:
    """Formats the distance from now: `3 min ago`, or `in 3 min` for a future time."""
    away = (now - moment).total_seconds()
    if abs(away) < 1:
        return "now"
    if away < 0:
        return f"in {_coarse(-away)}"
    return f"{' '.join(_coarse(away).split()[:2])} ago"


def how_long_ago(text: object, now: datetime) -> str:
    """Formats the distance of a moment of the API from now; "" without one."""
    moment = parse_time(text)
    return ago(moment, now) if moment else ""


def between(start: object, end: object, now: datetime) -> str:
    """Formats the duration so far or in total; empty if it has not begun."""
    begun = parse_time(start)
    return span(((parse_time(end) or now) - begun).total_seconds()) if begun else ""


def phrase(code: object) -> str:
    """Turns a code into words: `waiting_for_approval` into `waiting for approval`."""
    return printable(str(code or "")).replace("_", " ")


BRIEF_CHARACTERS = 500  # of a value on one line


def error_words(error: Mapping[str, Any]) -> str:
    """Describes an error, such as `CardDeclined: no funds (step charge, 3 tries)`."""
    where = [f"step {error['step']}"] if error.get("step") else []
    tries = [f"{error['attempts']} tries"] if (error.get("attempts") or 0) > 1 else []
    told = f"{error.get('type') or 'error'}: {worded(str(error.get('message') or ''))}".rstrip(": ")
    return printable(f"{told} ({', '.join(where + tries)})" if where or tries else told)


def brief(value: Any) -> str:
    """Formats a value as one line of JSON, cut if it is long, empty if it is empty. `--json` prints all of it."""
    if value in (None, "", [], {}):
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    left_out = len(text) - BRIEF_CHARACTERS
    shown = f"{text[:BRIEF_CHARACTERS]}… ({left_out:,} characters more)" if left_out > 0 else text
    return printable(shown).replace("\n", " ")


def printable(text: str) -> str:
    """Escapes control characters, so that data from a run cannot control the terminal."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() or character == "\n" else f"\\x{ord(character):02x}" for character in text
    )


def counted(number: float, things: str) -> str:
    """Returns `1 message`, `2 messages` or `2.5 messages`, given `messages`."""
    shown = number if isinstance(number, int) else f"{number:.4g}"
    return f"{shown} {things.removesuffix('s') if number == 1 else things}"


def _coarse(seconds: float) -> str:
    """Formats a duration without fractions of a second."""
    return f"{int(seconds)} s" if seconds < 10 else span(seconds)


def pause_text(pause: Mapping[str, Any]) -> str:
    """`order is paused by ana since …: the bank is down`."""
    what = "all workflows are" if pause["workflow"] == "*" else f"{printable(pause['workflow'])} is"
    return f"{what} {held_text(pause)}"


def held_text(pause: Mapping[str, Any]) -> str:
    """`paused by ana since …: the bank is down`."""
    by = f" by {printable(pause['by'])}" if pause.get("by") else ""
    why = f": {printable(pause['reason'])}" if pause.get("reason") else ""
    return f"paused{by} since {local_times(str(pause['since']), datetime.now(UTC))}{why}"


_KINDS = {"tasks": "a condition"}  # kinds of waits that people call otherwise
_RUNS_OWN = frozenset({"limit", "lock", "code"})  # these waits have no time limit but the run's own, far away


def awaited(run: Mapping[str, Any]) -> str:
    """What a run waits for, in words."""
    return kind_words("tasks" if waits_until(run) else run["waiting_for"])


def kind_words(kind: str) -> str:
    """A kind of wait in words. `ctx.until` of a function is a wait for its tasks to the engine, not to people."""
    return _KINDS.get(kind) or phrase(kind)


def waits_until(run: Mapping[str, Any]) -> bool:
    """Tells whether a durable function waits in `ctx.until`, and nothing else of it is under way.

    An older server calls such a wait with a time limit a sleep. There, its token tells.
    """
    if run.get("waiting_for") == "tasks":
        return True
    tokens = run.get("tokens") or ()
    return any((one.get("step"), one.get("phase")) == ("until", "waiting_at_fan_in") for one in tokens)


def waiting_words(run: Mapping[str, Any], now: datetime) -> str:
    """Describes a run's wait and its time limit."""
    start = parse_time(run.get("start_at"))
    if start and run.get("status") == "pending" and start > now:
        return f"starts at {clock(start, now)} ({ago(start, now)})"
    if not run.get("waiting_for"):
        return ""
    if run["waiting_for"] in _RUNS_OWN:
        return phrase(run["waiting_for"])
    moment = parse_time(run.get("waiting_until"))
    return f"{awaited(run)}, {until(moment, now) if moment else 'without a time limit'}"


def waiting_brief(run: Mapping[str, Any], now: datetime) -> str:
    """Describes a run's wait in a narrow list: `approval, in 2 d`."""
    start, moment = parse_time(run.get("start_at")), parse_time(run.get("waiting_until"))
    if start and run.get("status") == "pending" and start > now:
        return f"starts {ago(start, now)}"
    if not run.get("waiting_for"):
        return ""
    if run["waiting_for"] in _RUNS_OWN or moment is None:
        return awaited(run)
    return f"{awaited(run)}, {_due(moment, now)}"


def _due(moment: datetime, now: datetime) -> str:
    """Returns `in 2 d`, or `due 5 min ago`."""
    return " ".join(ago(moment, now).split()[:3]) if moment >= now else f"due {ago(moment, now)}"


def awaited_words(run: Mapping[str, Any]) -> str:
    """Names the events that a run waits for, each with its key; "" for none, and from an older server."""
    events = run.get("waiting_events") or ()
    return ", ".join(f"{one['name']} with key {one['key']}" if one.get("key") else str(one["name"]) for one in events)


def next_command(run: Mapping[str, Any], user: str = "", *, is_named: bool = False) -> str:
    """The command that ends a run's wait, or says what will. `user`: who answers unless `--by` says another.

    `is_named`: the caller's credentials say who answers, and `--by` decides nothing.
    """
    if run.get("waiting_for") != "approval":
        return f"stepwell explain {run.get('run_id')}"
    branch, name, by = _asked(run, user)
    step = f" --step {branch}{name}" if branch or name else ""
    return f"stepwell approve {run.get('run_id')}{step}" + (f" --by {shlex.quote(by)}" if by and not is_named else "")


def linked_person(run: Mapping[str, Any], user: str = "") -> str:
    """Returns the approver who can answer only by a link, which the API hides from this caller; empty if there is none.

    An API that knows its callers shows no links, and takes no name from `--by`. An approver that it may know is an ARN.
    """
    data = run.get("waiting_data")
    if run.get("waiting_for") != "approval" or not isinstance(data, Mapping) or data.get("approval_links"):
        return ""
    named = data.get("approvers")
    if not isinstance(named, list) or any(str(one).startswith("arn:") for one in named):
        return ""
    return _asked(run, user)[2] or (user if user in named else "")


def links_of(run: Mapping[str, Any], url: str) -> str:
    """Returns the command that shows the links of the approval that `next_command` answers."""
    branch, _, _ = _asked(run, "")
    body = f" -d {shlex.quote(json.dumps({'wait': branch}))}" if branch else ""
    route = shlex.quote(f"{url}/runs/{run.get('run_id')}/links")
    return f"curl -X POST {route}{body}"


def _asked(run: Mapping[str, Any], user: str) -> tuple[str, str, str]:
    """The approval to answer: its branch if there are several, its name behind that, and who may answer it.

    That person is empty if the user may.
    """
    asking = [one for one in run.get("tokens") or () if one.get("waiting_for") == "approval"]
    steps, due = [one["step"] for one in asking], run.get("waiting_until")
    first = [one for one in asking if one.get("waiting_until") == due] or asking  # `waiting_data` is of that one
    named = next((one["step"] if steps.count(one["step"]) == 1 else one["id"] for one in first), "")
    data = run.get("waiting_data")
    which, by = _of_several(data, user) or ("", _approver(data, user))
    return named if len(asking) > 1 or which else "", which, by


def _of_several(data: Any, user: str) -> tuple[str, str] | None:
    """One of several approvals of a wait, as `/approval_2`, and who may answer it; first one that the user may."""
    approvals = data.get("approvals") if isinstance(data, Mapping) else None
    if not isinstance(approvals, Mapping):
        return None
    if not all(_APPROVAL.fullmatch(str(name)) and isinstance(named, list) for name, named in approvals.items()):
        return None  # it is data of the workflow's own
    found = sorted(approvals.items(), key=lambda one: bool(one[1]) and user not in one[1])
    return next(((f"/{name}", _first(named, user)) for name, named in found), None)


def _approver(data: Any, user: str) -> str:
    """Who may answer an approval that names its approvers, and has not; empty if the user may."""
    named = data.get("approvers") if isinstance(data, Mapping) else None
    if not isinstance(named, list):
        return ""
    voted = {vote.get("by") for vote in data.get("votes") or () if isinstance(vote, Mapping)}
    return _first([one for one in named if one not in voted], user)


def _first(named: list[Any], user: str) -> str:
    """The first of these people; empty if the user is one of them."""
    return "" if user in named or not named else str(named[0])


def when(text: object, now: datetime) -> str:
    """Renders a moment of the API as a time and its distance; "" without one."""
    moment = parse_time(text)
    return f"{clock(moment, now)} ({ago(moment, now)})" if moment else ""


def when_in(zone: object, text: object, now: datetime) -> str:
    """Renders a moment of the API in a named time zone, and in the reader's own if they differ then."""
    moment, there = parse_time(text), _zone(zone)
    if moment is None or there is None:
        return when(text, now)
    at, local = moment.astimezone(there), moment.astimezone()
    told = f"{local:%H:%M}" if local.date() == at.date() else clock(moment, now)
    here = "" if at.utcoffset() == local.utcoffset() else f", {told} here"
    return f"{clock(moment, now, there)} {at:%Z}{here} ({ago(moment, now)})"


def _zone(name: object) -> tzinfo | None:
    """Returns the time zone of this name; None if this machine does not know it."""
    try:
        return ZoneInfo(str(name))
    except (KeyError, ValueError, OSError):
        return None
