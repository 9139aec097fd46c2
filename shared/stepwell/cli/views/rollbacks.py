"""Renders what a rollback has undone, and what it has not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from rich.padding import Padding
from rich.text import Text

from stepwell.cli.views.grids import plain, table_of
from stepwell.cli.views.words import error_words

_MANY = 6  # more rows that say the same are one: a fork has up to 10,000 branches


class _Row(NamedTuple):
    """A row of the table; rows that are equal but for their record say the same."""

    mark: str
    step: str
    told: str
    style: str


def has_undone(rollback: Mapping[str, Any] | None) -> bool:
    """Tells whether a rollback has steps to show: one of a run in which nothing had to be undone has none."""
    if not rollback:
        return False
    return rollback.get("not_undone") is None or bool(rollback.get("undone") or rollback.get("not_undone"))


def rollback_table(rollback: Mapping[str, Any], status: str) -> Padding:
    """A table of a rollback: undone steps in order, then the failed or current one, then the rest.

    A step that ran in many branches has one row for all that fared alike, where the first of them was.
    """
    table = table_of("", "rollback", "record", "")
    rows = [*_rows(rollback, status)]
    count, seen = Counter(row for row, _ in rows), set[_Row]()
    for row, record in rows:
        mark, step, told, style = row
        if count[row] <= _MANY:
            table.add_row(Text(mark, style=style), plain(step), Text(record, style="dim"), Text(told, style=style))
        elif row not in seen:
            times = plain(step).append(f" x {count[row]}", style="dim")
            table.add_row(Text(mark, style=style), times, "", Text(f"{count[row]} {told}".rstrip(), style=style))
        seen.add(row)
    if rollback.get("not_undone") is None:
        table.add_row("", "…", "", Text("the remaining steps were not read: the logs are too long", style="dim"))
    return Padding(table, (0, 0, 0, 1))


def _rows(rollback: Mapping[str, Any], status: str) -> Iterator[tuple[_Row, str]]:
    """Each step with its commit: a step in a loop or a fork has several."""
    for one in rollback.get("undone") or ():
        yield _Row("↺", _step(one), "undone", "magenta"), _record(one)
    failed = rollback.get("error") or {}
    for number, one in enumerate(rollback.get("not_undone") or ()):
        told, style = ("", "dim") if status == "compensating" else ("not undone", "yellow")
        if not number and failed:
            told, style = error_words({**failed, "step": ""}), "red"
        elif not number and status == "compensating":
            told, style = "next", "blue"
        mark = "✗" if style == "red" else "●" if style == "blue" else "○"
        yield _Row(mark, _step(one), told, style), _record(one)


def _step(one: Mapping[str, Any]) -> str:
    return str(one.get("step") or "?")


def _record(one: Mapping[str, Any]) -> str:
    return f"{one.get('token')}@{one.get('slot')}"
