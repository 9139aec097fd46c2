"""Renders one run in full for people, and why it is where it is. It neither calls the API nor prints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from stepwell.cli.connect import all_there, there, way_on
from stepwell.cli.hints import WAKING, with_commands
from stepwell.cli.views.grids import BAR, MARKS, STYLES, facts_view, plain, status_text, table_of
from stepwell.cli.views.rollbacks import has_undone, rollback_table
from stepwell.cli.views.telling import history_line
from stepwell.cli.views.words import (
    ago,
    awaited_words,
    between,
    brief,
    clock,
    counted,
    error_words,
    local_times,
    parse_time,
    phrase,
    printable,
    waiting_words,
    waits_until,
    when,
)

LINKS = frozenset({"approval_links", "callback_url"})
_GOES_ON = frozenset({"running", "waiting", "paused"})
_ORIGINS = {"redrive": "goes on from", "rerun": "rerun of", "fork": "fork of"}


def run_view(run: Mapping[str, Any], now: datetime) -> Group:
    """One run in full: facts, links, steps, child runs and rollback. Print it with soft_wrap to keep links whole."""
    parts: list[RenderableType] = [facts_view(_facts(run, now)), *_links(run.get("waiting_data"))]
    if run.get("steps"):
        parts += [Text(""), steps_table(run["steps"], now, str(run.get("status")), run.get("children") or ())]
    if run.get("children"):
        parts += [Text(""), children_table(run["children"])]
    if has_undone(run.get("rollback")):
        parts += [Text(""), rollback_table(run["rollback"], str(run.get("status")))]
    return Group(*parts)


def steps_table(
    steps: Mapping[str, Any], now: datetime, run_status: str, children: Iterable[Mapping[str, Any]] = ()
) -> Padding:
    """A table of steps: mark, attempts, duration and error; of a step in branches, how many are in each status.

    A step that did not fail says how many of its child runs did.
    """
    started = list(children)
    table = table_of("", "step", "tries", "took", "")
    table.columns[2].justify = table.columns[3].justify = "right"
    for name, step in steps.items():
        branches = step.get("branches") or {}
        status = _shown_status(step, run_status)
        error = step.get("error") or {}
        style = STYLES.get(status, "")
        told = (
            _branches_bar(branches, error, status, run_status) if branches else Text(_step_words(error, status), style)
        )
        lost = _lost_words(one for one in started if one.get("step") == name)
        if lost and step.get("status") != "failed":
            told.append(f"{', ' if told.plain else ''}{lost}", style=STYLES["tolerated"])
        table.add_row(
            Text(MARKS.get(status, "○"), style=style),
            Text(printable(str(name)), style=style).append(_times(branches), style="dim"),
            plain(step.get("attempts") or ""),
            plain(between(step.get("started_at"), step.get("ended_at"), now)),
            told,
        )
    return Padding(table, (0, 0, 0, 1))


def _shown_status(step: Mapping[str, Any], run_status: str) -> str:
    """The status of a step: `tolerated` if branches failed at it and the run completed, or goes on, all the same."""
    status = str(step.get("status") or "")
    is_failed = status == "failed" and step.get("branches")
    return "tolerated" if is_failed and run_status in {"completed", *_GOES_ON} else status


def _step_words(error: Mapping[str, Any], status: str) -> str:
    if error:
        return error_words({**error, "step": ""})
    return "" if status == "completed" else phrase(status)


def _lost_words(children: Iterable[Mapping[str, Any]]) -> str:
    """Returns how many of a step's child runs failed, such as `2 child runs failed`; "" if none is known to have."""
    statuses = [one.get("status") for one in children]
    count = sum(status in {"failed", "timed_out"} for status in statuses)
    least = "at least " if None in statuses else ""
    return f"{least}{counted(count, 'child runs')} failed" if count else ""


def _times(branches: Mapping[str, Any]) -> str:
    return f" x {branches['total']}" if branches else ""


def _branches_bar(branches: Mapping[str, Any], error: Mapping[str, Any], shown: str, run_status: str) -> Text:
    """A bar and words for the branches that ran a step, such as `━━━━ 198 completed, 1 failed, tolerated: no luck`.

    Whether the failures are tolerated is certain at the run's end alone: before, the run goes on.
    """
    goes_on = run_status in _GOES_ON and bool(branches.get("failed"))
    failed = STYLES["tolerated" if goes_on or shown == "tolerated" else "failed"]
    counts = {status: count for status, count in branches.items() if status != "total"}
    bar, drawn, seen = Text(), 0, 0
    for status in sorted(counts, key=_over_first):
        seen += counts[status]
        until_column = round(BAR * seen / branches["total"])
        style = failed if status == "failed" else STYLES.get(status, "bright_black")
        bar.append("━" * (until_column - drawn), style=style)
        drawn = until_column
    told = ", ".join(f"{count} {phrase(status)}" for status, count in counts.items())
    bar.append(f" {told}{', the run goes on' if goes_on else ', tolerated' if shown == 'tolerated' else ''}")
    why = f": {error_words({**error, 'step': '', 'attempts': 0})}" if error else ""
    return bar.append(why, style=failed)


def _over_first(status: str) -> tuple[bool, str]:
    return status in {"running", "waiting", "paused", "pending"}, status


def children_table(children: Iterable[Mapping[str, Any]]) -> Padding:
    """A table of child runs with the step that started each. A child with unread status shows ○."""
    table = table_of("", "child", "step", "workflow", "run", "status")
    for child in children:
        status = str(child.get("status") or "")
        style = STYLES.get(status, "")
        told = f"{phrase(status)}{', ' if status else ''}detached" if child.get("detached") else phrase(status)
        table.add_row(
            Text(MARKS.get(status, "○"), style=style),
            *(plain(child.get(name)) for name in ("name", "step", "workflow", "run_id")),
            Text(told, style=style),
        )
    return Padding(table, (0, 0, 0, 1))


def explain_view(explanation: Mapping[str, Any], now: datetime) -> Table:
    """A run's explanation: why it is in its state, what can wake it, and its last history entry."""
    return facts_view(_explained(explanation, now))


def _cost_words(cost: Mapping[str, Any]) -> str:
    """Returns what the run has cost on AWS; "" from a server that does not say."""
    if "usd" not in cost:
        return ""
    parts = {"write_units": "write units", "read_units": "read units", "invocations": "messages",
             "schedules": "schedules"}  # fmt: skip
    used = ", ".join(counted(cost[name], things) for name, things in parts.items())
    return f"{cost['usd']:.7f} USD on AWS: {used}"


def _facts(run: Mapping[str, Any], now: datetime) -> Iterator[tuple[str, RenderableType]]:
    yield "run", Text(printable(str(run.get("run_id"))), style="bold")
    yield "workflow", Text(f"{printable(str(run.get('workflow')))}  {_version(run)}")
    yield "status", status_text(run.get("status"))
    if run.get("progress") not in {None, "", "0/0"}:
        yield "progress", _progress(str(run["progress"]), str(run.get("status")))
    ended = bool(run.get("ended_at"))
    current = ", ".join(map(str, run.get("current_steps") or ()))
    if not ended and (run.get("phase") or current):
        yield "at", plain(f"{current}{', ' if current else ''}{_phase(run)}")
    yield from _told("forked", _fork_words(run.get("forked") or {}))
    if words := waiting_words(run, now):
        yield "waits for", Text(words, style="yellow")
        yield from _told("event" if len(run.get("waiting_events") or ()) == 1 else "events", awaited_words(run))
        yield from _told("with", _wait_data(run.get("waiting_data")))
        if run.get("waiting_for") not in {None, "", "delay", "sleep"}:
            yield "next", plain(way_on(run))
    yield from _told("input", run.get("input"))
    yield from _told("because", local_times(run.get("pending_reason") or "", now))
    yield from _told("state", _own_state(run))
    yield "created", plain(when(run.get("created_at"), now))
    if ended:
        took = between(run.get("started_at") or run.get("created_at"), run.get("ended_at"), now)
        yield "ended", plain(f"{when(run['ended_at'], now)}, after {took}")
    if run.get("error"):
        yield "error", Text(error_words(run["error"]), style="red")
        if trace := run["error"].get("traceback"):
            yield "traceback", Text("\n".join(map(printable, trace.splitlines())), style="dim")
    yield from _told("outcome", _outcome_words(run))
    for number, command in enumerate(_ways_on(run)):
        yield "" if number else "next", plain(there(command))
    if ended:
        yield from _told("result", run.get("result"))
    yield from _told("cancelled by", run.get("cancelled_by"))
    yield from _told("reason", run.get("cancel_reason"))
    yield from _told("tags", ", ".join(f"{name}={value}" for name, value in (run.get("tags") or {}).items()))
    yield from _told("parent", run.get("parent"))
    yield from _told("cost", _cost_words(run.get("cost") or {}))
    origin = run.get("origin") or {}
    yield from _told(_ORIGINS.get(origin.get("kind", ""), "made of"), origin.get("run_id"))


def _ways_on(run: Mapping[str, Any]) -> Iterator[str]:
    """Yields the commands for a run that failed, unless steps of it were undone: it goes on, or shows what failed."""
    if run.get("status") not in {"failed", "timed_out"} or run.get("outcome") == "partial_rollback":
        return
    yield f"stepwell redrive {run.get('run_id')}"
    if any((step.get("branches") or {}).get("failed") for step in (run.get("steps") or {}).values()):
        yield f"stepwell show {run.get('run_id')} --branches failed"


def _phase(run: Mapping[str, Any]) -> str:
    """The phase in words; a callback or a document is an event to the engine, and not to people."""
    if waits_until(run):
        return "waiting for a condition"
    if run.get("phase") == "waiting_at_fan_in":
        return "waiting at its join"
    is_event = run.get("phase") == "waiting_for_event" and run.get("waiting_for")
    return f"waiting for {phrase(run.get('waiting_for'))}" if is_event else phrase(run.get("phase"))


def _outcome_words(run: Mapping[str, Any]) -> str:
    """Describes a run's outcome, such as `partial rollback: failed at pay: no luck; …`."""
    told = phrase(run.get("outcome"))
    return f"{told}: {run.get('result_summary')}" if told and run.get("result_summary") else told


def _wait_data(data: Any) -> Any:
    """The wait's data without its links."""
    return {name: value for name, value in data.items() if name not in LINKS} if isinstance(data, Mapping) else data


def _links(data: Any) -> Iterator[Text]:
    """The wait's links, each in a line of its own and not in a column, so that it can be copied from any terminal."""
    links = data if isinstance(data, Mapping) else {}
    named = {f"link for {name}": url for name, url in (links.get("approval_links") or {}).items()}
    if links.get("callback_url"):
        named["callback"] = links["callback_url"]
    for label, url in named.items():
        yield Text.assemble((printable(label), "dim"), "  ", printable(str(url)))


def _own_state(run: Mapping[str, Any]) -> Mapping[str, Any]:
    """The state without the entries of steps, and without the error that is shown as the run's own."""
    state, told = run.get("state") or {}, {*(run.get("steps") or {})}
    last, error = state.get("_last_error"), run.get("error")
    if last and error and (last.get("type"), last.get("message")) == (error.get("type"), error.get("message")):
        told.add("_last_error")
    return {name: value for name, value in state.items() if name not in told}


def _fork_words(fork: Mapping[str, Any]) -> str:
    """Describes a fork, such as `3 branches of score, join gather`; empty for a DAG, which shows its steps."""
    if not fork.get("node"):
        return ""
    width = fork.get("width")
    return f"{width} branch{'' if width == 1 else 'es'} of {fork['node']}, join {fork.get('join') or 'at the end'}"


def _explained(explanation: Mapping[str, Any], now: datetime) -> Iterator[tuple[str, RenderableType]]:
    yield "run", Text(printable(str(explanation.get("run_id"))), style="bold")
    yield from _told("version", _version(explanation))
    yield "status", status_text(explanation.get("status"))
    yield from _told("why", local_times(str(explanation.get("why") or ""), now))
    since = parse_time(explanation.get("waiting_since"))
    if since:
        yield "since", plain(f"{clock(since, now)} ({ago(since, now)})")
    for number, waker in enumerate(explanation.get("wakers") or ()):
        at = when(waker.get("at"), now)
        told = f"{phrase(waker.get('what'))}{f' at {at}' if at else ''}: {_commands_of(waker)}"
        yield "" if number else "wakes it", plain(told)
    if explanation.get("last_entry"):
        yield "last", history_line(explanation["last_entry"], now)
    if explanation.get("nothing_can_wake_it"):
        yield "defect", Text("nothing can wake this run: please report this", style="red")


def _commands_of(waker: Mapping[str, Any]) -> str:
    """What wakes the run, with the commands that do it here."""
    return all_there(with_commands(brief(waker.get("detail"))), WAKING)


def _told(label: str, value: Any) -> Iterator[tuple[str, RenderableType]]:
    if words := brief(value):
        yield label, Text(words)


def _progress(progress: str, status: str) -> Text:
    done, _, total = progress.partition("/")
    if not (done.isdecimal() and total.isdecimal() and int(total)):
        return plain(progress)
    filled = min(round(BAR * int(done) / int(total)), BAR)
    bar = Text("━" * filled, style=STYLES.get(status, ""))
    return bar.append("─" * (BAR - filled), style="bright_black").append(f" {progress}", style="default")


def _version(run: Mapping[str, Any]) -> str:
    kind, _, digest = str(run.get("version") or "").partition(":")
    number = f" ({run['version_number']})" if run.get("version_number") else ""
    return printable((digest or kind)[:8]) + number + (", pinned" if run.get("pinned") else "")
