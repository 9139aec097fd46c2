"""A project's requirements files: without Stepwell, whose code is this installation's, and with their hashes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from stepwell.cdk.packaging.entries import COMMAND_ONLY, STEPWELL
from stepwell.project import name_of, read_requirements

_PIN = re.compile(r"([A-Za-z0-9][\w.-]*)(?:\[[^\]]*\])?\s*==\s*([\w.!+-]+)")
_INCLUDED = re.compile(r"\s*(?:-r|--requirement)[ =]?\s*(\S+)\s*(?:#.*)?")
_HASH = re.compile(r"--hash[= ](\S+)")
_VIA = re.compile(r"\s*#\s+(?:via\s*)?(.*)")


@dataclass(frozen=True, slots=True)
class Line:
    """A requirement, an option or a comment, and why a tool wrote it: `# via`."""

    text: str
    via: tuple[str, ...] = ()


def wanted_lines(files: Iterable[Path]) -> list[str]:
    """Returns the files' lines, without Stepwell, and without what only its command needs according to `# via`."""
    lines = [line for file in files for line in _lines_of(file)]
    left = _unneeded({name_of(line.text): line.via for line in lines})
    return [line.text for line in lines if name_of(line.text) not in left]


def joined_lines(text: str) -> list[str]:
    """Returns the lines of a requirements file, each requirement on one line."""
    return [line.text for line in _lines(text)]


def with_given_hashes(pinned: str, lines: Iterable[str]) -> str:
    """Replaces the hashes of the index by the ones that the project's own lines give for the same version."""
    given = {_pin(line): _HASH.findall(line) for line in lines if "--hash" in line and _PIN.match(line)}
    return "\n".join(_with_hashes(line.text, given) for line in _lines(pinned)) + "\n"


def _with_hashes(line: str, given: Mapping[tuple[str, str], list[str]]) -> str:
    hashes = given.get(_pin(line)) if _PIN.match(line) else None
    if not hashes:
        return line
    return " ".join((_HASH.sub("", line).strip(), *(f"--hash={one}" for one in hashes)))


def _pin(line: str) -> tuple[str, str]:
    found = _PIN.match(line)
    return (name_of(found[1]), found[2]) if found else ("", "")


def _lines_of(file: Path, within: tuple[Path, ...] = ()) -> Iterator[Line]:
    """Yields the lines of a file, and in place of each `-r other.txt` those of that file.

    `within`: the files that it is read for. One that asks for them again brings nothing more.
    """
    reading = (*within, file.resolve())
    for line in _lines(read_requirements(file)):
        included = _INCLUDED.fullmatch(line.text)
        other = file.parent / included[1] if included else file
        if included is None or not other.is_file():
            yield line
        elif other.resolve() not in reading:
            yield from _lines_of(other, reading)


def _lines(text: str) -> Iterator[Line]:
    """Joins continued lines, and reads the comment `# via` below a requirement, as pip-compile and uv write it."""
    found: list[Line] = []
    reading = False  # a comment that began with `# via`
    for line in re.sub(r"\\\r?\n", " ", text).splitlines():
        comment = _VIA.match(line)
        if comment is None:
            found.append(Line(line))
            reading = False
        elif found and found[-1].text and (reading or "# via" in line):
            reading = True
            last = found.pop()
            found.append(Line(last.text, (*last.via, *([comment[1].strip()] if comment[1].strip() else []))))
    yield from found


def _unneeded(via: Mapping[str, tuple[str, ...]]) -> set[str]:
    """Returns Stepwell, and the packages that it or another unneeded one alone brings, and no function imports."""
    left = {STEPWELL}
    while True:
        more = {name for name, sources in via.items() if sources and name not in left
                and all(_brings(source, name, left) for source in sources)}  # fmt: skip
        if not more:
            return left
        left |= more


def _brings(source: str, name: str, left: set[str]) -> bool:
    """Whether this source, a package or the file that asks for one, is no reason to keep a package."""
    if not re.fullmatch(r"[A-Za-z0-9][\w.-]*(?:\[[^\]]*\])?", source):
        return False  # `-r requirements.in`, `shop (pyproject.toml)`
    origin = name_of(source)
    return name in COMMAND_ONLY if origin == STEPWELL else origin in left
