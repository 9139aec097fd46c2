"""What every view for people is made of: tables, a grid of facts, and the mark and colour of each status."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from stepwell.cli.views.words import phrase, printable

STYLES = {
    "completed": "green",
    "running": "blue",
    "compensating": "blue",
    "waiting": "yellow",
    "paused": "yellow",
    "failed": "red",
    "tolerated": "yellow",  # of a step whose branches failed in part, in a run that completed
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
    "tolerated": "!",
    "timed_out": "✗",
    "cancelled": "⊘",
    "compensated": "↺",
    "skipped": "↷",
}
BAR = 20


def status_text(status: object) -> Text:
    """A status as a coloured mark and word."""
    word = str(status or "")
    return Text(f"{MARKS.get(word, '○')} {phrase(word)}", style=STYLES.get(word, ""))


def facts_view(facts: Iterable[tuple[str, RenderableType]]) -> Table:
    """A two-column grid of names and values."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for label, value in facts:
        grid.add_row(label, value)
    return grid


def table_of(*headings: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", show_header=any(headings))
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table


def plain(value: object) -> Text:
    return Text(printable(str("" if value is None else value)))
