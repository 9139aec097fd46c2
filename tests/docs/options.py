"""The generated block with the arguments and options of every command."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Any

import typer.main

from stepwell.cli.main import app
from tests.docs.tables import table


def options() -> str:
    """The arguments and options of each command."""
    return "\n\n".join(_section(path, command) for path, command in leaves(typer.main.get_command(app), "stepwell"))


def leaves(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yields the commands, also those of a group. Their classes are of Typer's own copy of Click, or of Click."""
    if not hasattr(command, "commands"):
        yield path, command
        return
    for name, inner in command.commands.items():
        yield from leaves(inner, f"{path} {name}")


def _section(path: str, command: Any) -> str:
    rows = [[_name(one), _meaning(one).replace("|", "\\|")] for one in command.params]
    text = " ".join((command.help or "").split())
    return "\n\n".join([f"## {path}", text, *([table(["argument or option", "meaning"], rows)] if rows else [])])


def _meaning(one: Any) -> str:
    """Returns the help of an option, with the words that it takes."""
    meaning = getattr(one, "help", None) or ""
    if not isinstance(one.default, Enum):
        return meaning
    words = [f"`{word.value}`" for word in type(one.default) if word is not one.default]
    return f"{meaning} `{one.default.value}` (default), {', '.join(words)}.".strip()


def _name(one: Any) -> str:
    value = one.metavar or one.name.upper()
    if not hasattr(one, "is_flag"):
        return f"`{value}`"
    names = ", ".join(f"`{name}`" for name in (*one.opts, *one.secondary_opts))
    return names if one.is_flag else f"{names} `{value}`"
