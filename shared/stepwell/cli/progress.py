"""Shows how far a long command is, on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable

import typer


def progress(what: str) -> Callable[[int, int], None]:
    """Returns what shows `3 of 20 schedules` on stderr, in one line; nothing where nobody looks."""
    is_shown = sys.stderr.isatty()

    def show(done: int, of: int) -> None:
        if is_shown:
            typer.echo(f"\r{done} of {of} {what}", err=True, nl=done == of)

    return show
