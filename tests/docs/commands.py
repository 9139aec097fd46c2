"""Parses the command lines of the documentation as a terminal and the command line would, without running them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import typer
import typer.main

from stepwell.cli.main import app
from tests.docs.snippets import ROOT, Snippet

# Programs of others: a test knows their names, and nothing about their options.
OUTSIDE = frozenset(
    ["aws", "cd", "cloudformation", "curl", "echo", "export", "ministack", "npx", "python3", "sed", "source", "uvicorn"]
)
_LOOP_WORDS = {"do", "done", "for", "read"}  # of the shell
_PLACEHOLDER = re.compile(r"\A(?:[A-Z_]+=|\$)")


def commands(snippet: Snippet) -> Iterator[list[str]]:
    """Yields the commands of a block as lists of words, without prompts, comments and variables."""
    text = snippet.text.replace("\\\n", " ")
    lines = text.splitlines()
    if snippet.language == "console":
        lines = [line[2:] for line in lines if line.startswith("$ ")]
    for line in _whole(lines):
        lexer = shlex.shlex(line, posix=True, punctuation_chars=";&|")
        lexer.whitespace_split = True
        lexer.commenters = "#"
        words: list[str] = []
        for word in [*_words(lexer), ";"]:
            if word not in {";", "&&", "&", "|"}:
                words.append(word)
            elif words:
                yield _bare(words)
                words = []


def wrong(words: list[str]) -> str:
    """Says what is wrong with a command; empty if nothing."""
    program = Path(words[0]).name if words else ""
    if program == "uv":
        words = words[2:] if words[1:2] == ["run"] else ["pip"]
    elif program == "pip":
        words = ["pip"]
    match words:
        case [] | ["pip", *_] | [".ci/run"]:
            return ""
        case ["stepwell", *arguments]:
            return _parsed(arguments)
        case ["python", "-m", module, *_]:
            return "" if find_spec(module) else f"no module {module}"
        case ["pytest" | "python" | "ruff" | "mypy", *arguments]:
            paths = [one for one in arguments if re.fullmatch(r"(?:tests|examples|benchmarks)/\S*", one)]
            return ", ".join(f"no file {one}" for one in paths if not (ROOT / one).exists())
        case [script] if script.endswith(".py"):
            return "" if (ROOT / script).exists() else f"no file {script}"
        case [program, *_]:
            return "" if program in OUTSIDE | _LOOP_WORDS else f"unknown program {program!r}"
    raise AssertionError(words)


def _parsed(arguments: list[str]) -> str:
    """Parses arguments of `stepwell` as the command line does. A file that they name need not exist."""
    command: Any = typer.main.get_command(app)  # of Typer's own copy of Click, or of Click, by Typer's version
    while arguments and arguments[0] in getattr(command, "commands", ()):
        command, arguments = command.commands[arguments[0]], arguments[1:]
    if arguments == ["--help"]:
        return ""
    if hasattr(command, "commands") and not (arguments and arguments[0].startswith("-")):
        return f"no command {' '.join(arguments[:1])!r}"
    try:
        command.make_context("stepwell", list(arguments))
    except typer.Exit:
        return ""  # --version
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        found = str(error.format_message())
        return "" if "does not exist" in found else found
    return ""


def _whole(lines: list[str]) -> Iterator[str]:
    """Yields commands that go over several lines as one: those with a quote that is still open."""
    held = ""
    for line in lines:
        held = f"{held}\n{line}" if held else line
        try:
            shlex.split(held, comments=True)
        except ValueError:
            continue
        yield held
        held = ""
    if held:
        yield held


def _words(lexer: shlex.shlex) -> list[str]:
    try:
        return list(lexer)
    except ValueError:
        return ["a", "quote", "that", "is", "not", "closed"]


def _bare(words: list[str]) -> list[str]:
    """Leaves variables before a command and redirections out."""
    while words and _PLACEHOLDER.match(words[0]):
        words = words[1:]
    kept, skip = [], False
    for word in words:
        if skip or word.startswith((">", "<")):
            skip = word in {">", "<", ">>"}
        else:
            kept.append(word)
    return kept
