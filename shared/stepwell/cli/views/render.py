"""Renders lists for people: runs, failures, lines, branches, statistics. It neither calls the API nor prints."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import pairwise, takewhile
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from stepwell.cli.connect import there
from stepwell.cli.finding import OWN
from stepwell.cli.views.grids import plain, status_text, table_of
from stepwell.cli.views.words import (
    brief,
    error_words,
    how_long_ago,
    kind_words,
    pause_text,
    phrase,
    printable,
    waiting_brief,
    waiting_words,
    when,
    when_in,
)
from stepwell.definition.durations import span
from stepwell.limits import PAGE_ITEMS_MAX
from stepwell.local.ids import short

WIDE = 100  # columns from which a list of runs has room for their whole ids
_WHOLE, _LEAST = 40, 8  # characters of a delivery's id: that a wide table has room for, and of a beginning
TERMINAL = 80  # columns of a terminal that nobody has made narrower
NARROW = 60  # columns from which it has room for what they wait for
_WHY, _WHY_NARROW = 20, 14  # characters of that: in a terminal, and in a narrower one
_ALWAYS = ("run", "workflow", "status", "at", "waits for", "created")  # columns of runs that stand there empty, too
_BETWEEN = 2  # characters between two columns


def runs_table(items: Iterable[Mapping[str, Any]], now: datetime, width: int = WIDE) -> Table:
    """A table of runs, newest first, one line each: what has no room is cut. Of made ids it has the ends below WIDE.

    Where not all has room, it has the wait or the error of each as `why`, and no empty columns: below WIDE no parent,
    and below NARROW only where a run stands.

    Of a run that failed it has the error's type and step: its header has no message.
    """
    runs = list(items)
    rows = [_run_cells(run, now, width) for run in runs]
    headings = _filled(["run", "workflow", "status", "at", "waits for", "error", "created", "parent"], rows, _ALWAYS)
    if width < WIDE or _columns(rows, headings) > width:
        more = [*(["why", "created"] if width >= NARROW else []), *(["parent"] if width >= WIDE else [])]
        rows = [_run_cells(run, now, width, is_tight=True) for run in runs]
        headings = _filled(["run", "workflow", "status", "at", *more], rows, _ALWAYS[:3])
    table = table_of(*headings)
    for row in rows:
        table.add_row(*(row[heading] for heading in headings))
    for column in table.columns:  # those that may be cut are not `no_wrap`: rich takes the room from them
        column.overflow = "ellipsis"
        column.no_wrap = column.header not in ("workflow", "at", "waits for", "error")
    return table


def _filled(headings: Sequence[str], rows: Sequence[Mapping[str, Text]], always: Collection[str]) -> list[str]:
    return [one for one in headings if one in always or any(row[one].plain for row in rows)]


def _columns(rows: Sequence[Mapping[str, Text]], headings: Sequence[str]) -> int:
    """Returns how wide a table is that cuts nothing."""
    widths = [max(len(one), *(row[one].cell_len for row in rows)) if rows else len(one) for one in headings]
    return sum(widths) + _BETWEEN * (len(headings) - 1)


def _run_cells(run: Mapping[str, Any], now: datetime, width: int, *, is_tight: bool = False) -> dict[str, Text]:
    run_id, parent = (str(run.get(name) or "") for name in ("run_id", "parent"))
    failure = run.get("failure") or {}
    error = Text(printable(str(failure.get("type") or "")), style="red")
    pending = run.get("pending_reason")
    why = plain(waiting_brief(run, now) or pending) if run.get("waiting_for") or not error else error.copy()
    why.truncate(_WHY if width >= TERMINAL else _WHY_NARROW, overflow="ellipsis")
    cells = {
        "run": plain(run_id if width >= WIDE else short(run_id)),
        "workflow": plain(run.get("workflow")),
        "status": status_text(run.get("status")),
        "at": plain(", ".join(map(str, run.get("current_steps") or ())) or failure.get("step")),
        "waits for": plain(waiting_words(run, now) or pending),
        "error": error,
        "why": why,
        "created": plain(how_long_ago(run.get("created_at"), now)),
        "parent": plain(short(parent) if is_tight else parent),
    }
    for cell in cells.values():
        cell.no_wrap = True
    return cells


def failures_table(items: Iterable[Mapping[str, Any]], now: datetime, width: int = WIDE) -> Table:
    """A table of failed runs by their error. Where not all has room, it has the ends of made ids, and no first times.

    Below TERMINAL it has no times.
    """
    groups = list(items)
    rows = [_failure_cells(one, now, is_wide=True) for one in groups]
    headings = [*_FAILURE, "first", "last", "such as"]
    if width < WIDE or _columns(rows, headings) > width:
        rows = [_failure_cells(one, now, is_wide=False) for one in groups]
        headings = [*_FAILURE, *(["last"] if width >= TERMINAL else []), "such as"]
    table = table_of(*headings)
    for row in rows:
        table.add_row(*(row[heading] for heading in headings))
    for column in table.columns:
        column.no_wrap = column.header not in ("workflow", "step", "error")
    return table


_FAILURE = {"runs": "count", "fingerprint": "fingerprint", "workflow": "workflow", "step": "step", "error": "type"}


def _failure_cells(one: Mapping[str, Any], now: datetime, *, is_wide: bool) -> dict[str, Text]:
    run_id = str(one.get("run_id") or "")
    times = {"first": how_long_ago(one.get("first_at"), now), "last": how_long_ago(one.get("last_at"), now)}
    named = {heading: one.get(name) for heading, name in _FAILURE.items()}
    cells = {**named, **times, "such as": run_id if is_wide else short(run_id)}
    return {heading: plain(value) for heading, value in cells.items()}


def limits_table(items: Iterable[Mapping[str, Any]], now: datetime) -> Table:
    """A table of limits, with how many hold their permits and wait for them."""
    table = table_of("limit", "of", "at once", "rate", "under way", "waiting", "next turn")
    for one in items:
        rate, turn = one.get("rate_limit") or {}, one.get("next_turn_at")
        told = f"{rate['limit']} in {rate['per']:g} s" if rate else ""
        key = "by key" if one.get("key") else ""
        most, under_way, waiting = (one.get(name) for name in ("concurrency", "under_way", "waiting"))
        values = (one.get("name"), one.get("of"), most, told, key or under_way, key or waiting, when(turn, now))
        table.add_row(*map(plain, values))
    return table


def line_table(line: Mapping[str, Any]) -> Table:
    """A table of who holds the permits of a limit, and who waits for one."""
    table = table_of("place", "run", "token")
    for one in (*line.get("under_way", ()), *line.get("items", ())):
        place = one.get("place")
        told = "under way" if place is None else "next" if place == 0 else str(place + 1)
        table.add_row(plain(told), plain(one.get("run_id")), plain(one.get("token")))
    return table


def schedules_table(items: Iterable[Mapping[str, Any]], now: datetime) -> Table:
    """A table of schedules by name, with the next time in the schedule's time zone, or why it starts nothing."""
    table = table_of("name", "workflow", "schedule", "timezone", "next")
    for schedule in items:
        told = (plain(schedule.get(name)) for name in ("name", "workflow", "schedule", "timezone"))
        table.add_row(*told, plain(_next_time(schedule, now)))
    table.columns[3].no_wrap = True
    return table


def _next_time(schedule: Mapping[str, Any], now: datetime) -> str:
    pause, error = schedule.get("paused"), schedule.get("error")
    if pause:
        by, reason = pause.get("by"), pause.get("reason")
        return f"paused{f' by {by}' if by else ''}{f': {reason}' if reason else ''}"
    if error:
        return f"starts nothing: {error}"
    following = when_in(schedule.get("timezone"), (schedule.get("next") or [""])[0], now)
    rests = "its workflow is paused: its runs start, and rest" if schedule.get("workflow_paused") else ""
    return "; ".join(filter(None, (following, rests)))


def branches_table(items: Iterable[Mapping[str, Any]], run_status: str = "") -> Table:
    """A table of a fork's branches by index: item, status, node, and error or wait.

    A branch that failed in a run that completed is `tolerated`.
    """
    table = table_of("branch", "item", "status", "at", "")
    for one in items:
        error, waits, status = one.get("error"), one.get("waiting_for"), one.get("status")
        table.add_row(
            plain(one.get("id")),
            plain(brief(one.get("item"))),
            status_text("tolerated" if status == "failed" and run_status == "completed" else status),
            plain(one.get("current_step")),
            plain(error_words(error) if error else _branch_wait(waits, one.get("waiting_data")) if waits else ""),
        )
    return table


def _branch_wait(kind: Any, data: Any) -> str:
    told = brief(data)
    return f"waits for {kind_words(kind)}{f': {told}' if told else ''}"


def deliveries_table(items: Sequence[Mapping[str, Any]], now: datetime, width: int = WIDE) -> Table:
    """A table of webhook deliveries, newest first. Where whole ids have no room, it has beginnings, one for each."""
    table = table_of("source", "delivery", "received", "outcome", "as", "replayed as")
    table.columns[1].no_wrap = True
    ids = {str(one.get("id") or "") for one in items}
    is_wide = width >= WIDE and max(map(len, ids), default=0) <= _WHOLE
    shown = {one: one for one in ids} if is_wide else _beginnings(ids)
    for one in items:
        made = one.get("made") or one.get("detail")
        table.add_row(
            plain(one.get("source")),
            plain(shown[str(one.get("id") or "")]),
            plain(how_long_ago(one.get("at"), now)),
            Text(str(one.get("outcome") or ""), style="red" if one.get("outcome") == "refused" else ""),
            plain(made),
            plain(", ".join(map(str, one.get("replays") or ()))),
        )
    return table


def _beginnings(ids: Collection[str]) -> Mapping[str, str]:
    """Returns for each of these ids its shortest beginning that no other has, of _LEAST characters or more."""
    ordered = sorted(ids)
    alike = [0, *(_alike(*pair) for pair in pairwise(ordered)), 0]
    return {one: one[: max(_LEAST, 1 + alike[at], 1 + alike[at + 1])] for at, one in enumerate(ordered)}


def _alike(one: str, other: str) -> int:
    """Returns how many characters both begin with."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def stats_view(stats: Mapping[str, Any]) -> Group:
    """Counts of runs by status, workflow and wait. Those of Stepwell's own workflows are apart, as in lists of runs."""
    by_workflow = stats.get("workflows") or {}
    own = {name: counts for name, counts in by_workflow.items() if name.startswith(OWN)}
    statuses, workflows = _statuses_table(stats, own.values()), table_of("workflow", "runs", "")
    for name, counts in by_workflow.items():
        if name not in own:
            workflows.add_row(plain(name), plain(sum(counts.values())), plain(_counts_words(counts)))
    parts: list[RenderableType] = [statuses, Text(""), workflows] if statuses.row_count else [Text("no runs")]
    parts += [Text(f"\nnot counted: {name}, {_counts_words(counts)}", style="dim") for name, counts in own.items()]
    if costs := stats.get("costs"):
        parts += [Text(""), _costs_table(costs)]
    if stats.get("waits"):
        told = ", ".join(f"{count} for {kind_words(kind)}" for kind, count in stats["waits"].items())
        parts.append(Text(f"\nwaiting: {told}"))
    if overdue := stats.get("overdue"):
        least = "≥ " if overdue >= PAGE_ITEMS_MAX else ""  # the API counts a page of them
        parts.append(Text(f"overdue: {least}{overdue}  ({there('stepwell runs --overdue')})", style="red"))
    parts += [Text(pause_text(one), style="yellow") for one in stats.get("paused") or []]
    return Group(*parts)


def _statuses_table(stats: Mapping[str, Any], without: Collection[Mapping[str, int]]) -> Table:
    """A table of statuses with how many runs there are and their ages. `without`: counts by status to leave out."""
    table = table_of("status", "runs", "average age", "oldest")
    for status, numbers in (stats.get("statuses") or {}).items():
        count = numbers.get("count", 0) - sum(counts.get(status, 0) for counts in without)
        ages = [numbers.get("average_age_seconds"), numbers.get("oldest_age_seconds")]
        if count > 0:
            table.add_row(
                status_text(status),
                plain(f"{'≥ ' if status in stats.get('at_least', ()) else ''}{count}"),
                *(plain(span(age) if isinstance(age, (int, float)) else "") for age in ages),
            )
    return table


def _counts_words(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {phrase(status)}" for status, count in counts.items())


def _costs_table(costs: Mapping[str, Any]) -> Table:
    table = table_of("workflow", "USD a run", "write units", "USD in all", "")
    for name, cost in costs.items():
        read = f"by the newest {cost['runs_read']} ended runs, prices of {cost['prices_as_of']}"
        table.add_row(plain(name), f"{cost['usd_per_run']:.7f}", f"{cost['write_units_per_run']:.4g}",
                      f"{cost['usd_estimated']:.4f}", read)  # fmt: skip
    return table
