"""Runs as a person reads them: tables, one run in full, history lines, numbers. Nothing here asks or prints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from stepwell.cli.words import ago, between, brief, clock, parse_time, phrase, printable, span, until

STYLES = {
    "completed": "green",
    "running": "blue",
    "compensating": "blue",
    "waiting": "yellow",
    "paused": "yellow",
    "failed": "red",
    "timed_out": "red",
    "cancelled": "magenta",
    "compensated": "magenta",
    "skipped": "dim",
}
MARKS = {
    "completed": "✓",
    "running": "●",
    "compensating": "↺",
    "waiting": "◔",
    "paused": "‖",
    "failed": "✗",
    "timed_out": "✗",
    "cancelled": "⊘",
    "compensated": "↺",
    "skipped": "↷",
}
_BAR = 20
# In `by`, a person is somebody; the name of the message under which a record was written says little to people.
_ENGINE = (
    "wake:",
    "timer:",
    "event:",
    "approved:",
    "rejected:",
    "deadline:",
    "start:",
    "cancel:",
    "terminate:",
    "dead:",
)
_TONES = (  # of a history entry, by what its type ends with
    (("completed", "received", "fired", "approved"), "green"),
    (("failed", "rejected", "timed_out"), "red"),
    (("retry_scheduled", "requested", "started", "blocked"), "yellow"),
    (("cancelled", "terminated"), "magenta"),
)


def status_text(status: object) -> Text:
    """The mark and the word, coloured."""
    word = str(status or "")
    return Text(f"{MARKS.get(word, '○')} {phrase(word)}", style=STYLES.get(word, ""))


def runs_table(items: Iterable[Mapping[str, Any]], now: datetime) -> Table:
    """A list of runs, newest first."""
    table = _table("run", "workflow", "status", "at", "waits for", "created")
    table.columns[0].overflow = "fold"  # an id that is cut is of no use
    for run in items:
        created = parse_time(run.get("created_at"))
        table.add_row(
            _plain(run.get("run_id")),
            _plain(run.get("workflow")),
            status_text(run.get("status")),
            _plain(", ".join(map(str, run.get("current_steps") or ()))),
            _plain(waiting_words(run, now)),
            _plain(ago(created, now) if created else ""),
        )
    return table


def schedules_table(items: Iterable[Mapping[str, Any]], now: datetime) -> Table:
    """The schedules by name; the next time is the reader's own."""
    table = _table("name", "workflow", "schedule", "timezone", "next")
    for schedule in items:
        following = (schedule.get("next") or [None])[0]
        told = (_plain(schedule.get(name)) for name in ("name", "workflow", "schedule", "timezone"))
        table.add_row(*told, _plain(_when(following, now)))
    return table


def waiting_words(run: Mapping[str, Any], now: datetime) -> str:
    """What a run waits for, and until when."""
    if not run.get("waiting_for"):
        return ""
    moment = parse_time(run.get("waiting_until"))
    return f"{phrase(run['waiting_for'])}, {until(moment, now) if moment else 'without a time limit'}"


def run_view(run: Mapping[str, Any], now: datetime) -> Group:
    """One run: what it is, where it stands, its steps, how it ended."""
    parts: list[RenderableType] = [facts_view(_facts(run, now))]
    if run.get("steps"):
        parts += [Text(""), steps_table(run["steps"], now)]
    return Group(*parts)


def steps_table(steps: Mapping[str, Any], now: datetime) -> Padding:
    """The steps with their marks, how often they were tried, how long they took, and what went wrong."""
    table = _table("", "step", "tries", "took", "")
    table.columns[2].justify = table.columns[3].justify = "right"
    for name, step in steps.items():
        status = str(step.get("status") or "")
        error = step.get("error") or {}
        style = STYLES.get(status, "")
        table.add_row(
            Text(MARKS.get(status, "○"), style=style),
            Text(printable(str(name)), style=style),
            _plain(step.get("attempts") or ""),
            _plain(between(step.get("started_at"), step.get("ended_at"), now)),
            Text(
                error_words({**error, "step": ""}) if error else "" if status == "completed" else phrase(status), style
            ),
        )
    return Padding(table, (0, 0, 0, 1))


def error_words(error: Mapping[str, Any]) -> str:
    """CardDeclined: no funds (step charge, 3 tries)"""
    where = [f"step {error['step']}"] if error.get("step") else []
    tries = [f"{error['attempts']} tries"] if (error.get("attempts") or 0) > 1 else []
    told = f"{error.get('type') or 'error'}: {error.get('message') or ''}".rstrip(": ")
    return printable(f"{told} ({', '.join(where + tries)})" if where or tries else told)


def history_line(entry: Mapping[str, Any], now: datetime) -> Text:
    """14:02:11  step.completed  charge"""
    kind = printable(str(entry.get("type") or ""))
    tone = next((colour for ends, colour in _TONES if kind.endswith(ends)), "")
    moment = parse_time(entry.get("at"))
    line = Text(f"{_exactly(moment, now):<8}", style="dim")
    line.append(f"  {kind:<20}", style=tone or "dim")
    if entry.get("step"):
        line.append(f"  {printable(str(entry['step']))}", style="bold")
    if (entry.get("attempt") or 1) > 1:
        line.append(f"  try {entry['attempt']}")
    if entry.get("to"):
        start = f"{phrase(entry['from'])} → " if entry.get("from") else "→ "
        line.append(f"  {start}{phrase(entry['to'])}", style="dim")
    by = str(entry.get("by") or "")
    for label, value in (("by ", "" if by.startswith(_ENGINE) else by), ("", entry.get("data"))):
        if words := brief(value):
            line.append(f"  {label}{words}", style="dim")
    return line


def stats_view(stats: Mapping[str, Any]) -> Group:
    """How many runs in each status, by workflow, and what they wait for."""
    statuses = _table("status", "runs", "average age", "oldest")
    for status, numbers in (stats.get("statuses") or {}).items():
        ages = [numbers.get("average_age_seconds"), numbers.get("oldest_age_seconds")]
        statuses.add_row(
            status_text(status),
            _plain(numbers.get("count")),
            *(_plain(span(age) if isinstance(age, (int, float)) else "") for age in ages),
        )
    workflows = _table("workflow", "runs", "")
    for name, counts in (stats.get("workflows") or {}).items():
        told = ", ".join(f"{count} {phrase(status)}" for status, count in counts.items())
        workflows.add_row(_plain(name), _plain(sum(counts.values())), _plain(told))
    parts: list[RenderableType] = [statuses, Text(""), workflows]
    if stats.get("waits"):
        told = ", ".join(f"{count} for {phrase(kind)}" for kind, count in stats["waits"].items())
        parts.append(Text(f"\nwaiting: {told}"))
    if overdue := stats.get("overdue"):
        parts.append(Text(f"overdue: {overdue}  (stepwell runs --overdue)", style="red"))
    return Group(*parts)


def explain_view(explanation: Mapping[str, Any], now: datetime) -> Table:
    """Why a run is where it is, what will or can wake it, and what happened last."""
    return facts_view(_explained(explanation, now))


def facts_view(facts: Iterable[tuple[str, RenderableType]]) -> Table:
    """Names and values."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for label, value in facts:
        grid.add_row(label, value)
    return grid


def _facts(run: Mapping[str, Any], now: datetime) -> Iterator[tuple[str, RenderableType]]:
    yield "run", Text(printable(str(run.get("run_id"))), style="bold")
    yield "workflow", Text(f"{printable(str(run.get('workflow')))}  {_version(run.get('version'))}")
    yield "status", status_text(run.get("status"))
    if run.get("progress"):
        yield "progress", _progress(str(run["progress"]), str(run.get("status")))
    ended = bool(run.get("ended_at"))
    current = ", ".join(map(str, run.get("current_steps") or ()))
    if not ended and (run.get("phase") or current):
        yield "at", _plain(f"{current}{', ' if current else ''}{phrase(run.get('phase'))}")
    yield from _told("forked", _fork_words(run.get("forked") or {}))
    if words := waiting_words(run, now):
        yield "waits for", Text(words, style="yellow")
        yield from _told("with", run.get("waiting_data"))
    yield from _told("because", run.get("pending_reason"))
    yield "created", _plain(_when(run.get("created_at"), now))
    if ended:
        took = between(run.get("started_at") or run.get("created_at"), run.get("ended_at"), now)
        yield "ended", _plain(f"{_when(run['ended_at'], now)}, after {took}")
    if run.get("error"):
        yield "error", Text(error_words(run["error"]), style="red")
    yield from _told("outcome", phrase(run.get("outcome")))
    if ended:
        yield from _told("result", run.get("result"))
    yield from _told("cancelled by", run.get("cancelled_by"))
    yield from _told("reason", run.get("cancel_reason"))
    yield from _told("tags", ", ".join(f"{name}={value}" for name, value in (run.get("tags") or {}).items()))
    yield from _told("parent", run.get("parent"))
    yield from _told("children", ", ".join(map(str, run.get("children") or ())))


def _fork_words(fork: Mapping[str, Any]) -> str:
    """3 branches of score, join gather. Of a DAG its steps are shown instead."""
    if not fork.get("node"):
        return ""
    width = fork.get("width")
    return f"{width} branch{'' if width == 1 else 'es'} of {fork['node']}, join {fork.get('join') or 'at the end'}"


def _explained(explanation: Mapping[str, Any], now: datetime) -> Iterator[tuple[str, RenderableType]]:
    yield "run", Text(printable(str(explanation.get("run_id"))), style="bold")
    yield "status", status_text(explanation.get("status"))
    yield from _told("why", explanation.get("why"))
    since = parse_time(explanation.get("waiting_since"))
    if since:
        yield "since", _plain(f"{clock(since, now)} ({ago(since, now)})")
    for number, waker in enumerate(explanation.get("wakers") or ()):
        at = _when(waker.get("at"), now)
        told = f"{phrase(waker.get('what'))}{f' at {at}' if at else ''}: {brief(waker.get('detail'))}"
        yield "" if number else "wakes it", _plain(told)
    if explanation.get("last_entry"):
        yield "last", history_line(explanation["last_entry"], now)
    if explanation.get("nothing_can_wake_it"):
        yield "defect", Text("nothing can wake it: please report this", style="red")


def _told(label: str, value: Any) -> Iterator[tuple[str, RenderableType]]:
    if words := brief(value):
        yield label, Text(words)


def _progress(progress: str, status: str) -> Text:
    done, _, total = progress.partition("/")
    if not (done.isdecimal() and total.isdecimal() and int(total)):
        return _plain(progress)
    filled = min(round(_BAR * int(done) / int(total)), _BAR)
    bar = Text("━" * filled, style=STYLES.get(status, ""))
    return bar.append("━" * (_BAR - filled), style="bright_black").append(f" {progress}", style="default")


def _version(version: object) -> str:
    kind, _, digest = str(version or "").partition(":")
    return printable(digest[:8] if digest else kind[:8])


def _when(text: object, now: datetime) -> str:
    moment = parse_time(text)
    return f"{clock(moment, now)} ({ago(moment, now)})" if moment else ""


def _exactly(moment: datetime | None, now: datetime) -> str:
    """History is read to the second."""
    if moment is None:
        return ""
    local = moment.astimezone()
    return f"{local:%H:%M:%S}" if local.date() == now.astimezone().date() else f"{local:%Y-%m-%d %H:%M:%S}"


def _table(*headings: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", show_header=any(headings))
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table


def _plain(value: object) -> Text:
    return Text(printable(str("" if value is None else value)))
