"""The code blocks of the documentation, and what a test does with each.

A block whose first line is `# folder/name.py` (or .yaml, .toml) is a file of its page's project: the tests write the
project and run its tests. Definitions are compiled, JSON and TOML are read, and commands are parsed as a terminal and
the command line would.
A block that no test can take has the comment `<!-- not run: REASON -->` on the line before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
WRITTEN = (
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted(DOCS.rglob("*.md")),
    *sorted((ROOT / "examples").rglob("README.md")),
)

# Why a block is not run.
REASONS = {
    "output": "what a program prints, sends or answers",
    "fragment": "a part of a program, whose other names stand for yours",
    "elsewhere": "a program for another system",
    "picture": "a drawing",
}
SHELLS = ("", "bash", "sh", "console")
_YAML = {"workflow": "definition", "agent": "definition", "sources": "webhooks", "out": "webhooks",
         "- approve": "answers", "default": "assumptions", "as_of": "prices"}  # fmt: skip
_FENCE = re.compile(
    r"^(?P<indent> *)(?:<!-- not run: (?P<reason>[^>]*?) -->\n(?P=indent))?"
    r"```(?P<language>[^\n]*)\n(?P<text>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)
_INDENTED = re.compile(r"(?<=\n\n) {4}(?![ *\d-])[^\n]+")
_INLINE = re.compile(r"`(stepwell [a-z][^`]*)`")
_FILE = re.compile(r"# ([\w./-]+\.(?:py|yaml|toml|json))\n")


@dataclass(frozen=True, slots=True)
class Snippet:
    """A code block; `reason` says why no test runs it."""

    page: Path
    line: int
    language: str
    text: str
    reason: str

    @property
    def file(self) -> str:
        """The file of the page's project that this block is, if it is one."""
        found = _FILE.match(self.text)
        return found[1] if found else ""

    @property
    def kind(self) -> str:
        """What a test does with the block; empty if nothing."""
        if self.reason:
            return "marked"
        if self.language == "mermaid" or self.language.startswith("{"):
            return "site"  # a generated diagram, or a list of pages that the site's build checks
        if self.file:
            return "file"
        first = self.text.partition(":")[0]
        if self.language == "yaml":
            return _YAML.get(first, "nodes")
        if self.language in SHELLS:
            return "commands"
        return self.language if self.language in {"json", "toml"} else ""

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


@cache
def snippets() -> tuple[Snippet, ...]:
    """Returns every code block of every page."""
    return tuple(one for page in WRITTEN for one in _of(page))


def of_kind(*kinds: str) -> list[Snippet]:
    """Returns the blocks with which a test does this."""
    return [one for one in snippets() if one.kind in kinds]


def unfenced(page: Path) -> list[str]:
    """Returns the first lines of blocks that are code by their indentation alone, and so no snippet."""
    return _INDENTED.findall(_FENCE.sub("", page.read_text(encoding="utf-8")))


def inline_commands(page: Path) -> list[str]:
    """Returns the commands in the page's sentences and tables."""
    return [" ".join(one.split()) for one in _INLINE.findall(_FENCE.sub("", page.read_text(encoding="utf-8")))]


def _of(page: Path) -> Iterator[Snippet]:
    text = page.read_text(encoding="utf-8")
    for found in _FENCE.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        yield Snippet(page, line, found["language"].strip(), dedent(found["text"]), found["reason"] or "")
