"""Finds dependencies that are folders of this machine, and puts wheels in their place: workspaces, paths.

A requirement for a folder or a source archive becomes one for its wheel:

    -e ../till ; python_version >= "3.11"    ->    till @ file:///…/till-1.0-py3-none-any.whl ; python_version >= "3.11"
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from stepwell.cdk.errors import BundlingError
from stepwell.cdk.packaging.entries import STEPWELL, refuse_source
from stepwell.cdk.packaging.wheels import ARCHIVES, WHEEL, Wheels, name_of_file, needs_of
from stepwell.project import FILE, Project, name_of, read_document

_LINE = re.compile(
    r"(?P<editable>(?:-e|--editable)[ =]\s*)?"
    r"(?:(?P<name>[A-Za-z0-9][\w.-]*)\s*(?P<extras>\[[^\]]*\])?\s*@\s*)?"
    r"(?P<place>.+?)(?P<more>\[[\w\s,.-]*\])?(?:#egg=[^\s;]*)?"
    r"(?P<marker>\s+;.*?|;\s.*?)?(?P<hashes>(?:\s+--hash[ =]\S+)*)(?:\s+#.*)?\s*"
)


def with_wheels(lines: Iterable[str], places: Sequence[Path], wheels: Wheels) -> list[str]:
    """Returns the lines of a requirements file with a wheel in place of each folder and archive of this machine.

    A relative path is looked for from each of `places` in turn. Raises BundlingError.
    """
    return [_with_wheel(line, places, wheels) for line in lines]


def with_sources(project: Project) -> list[str]:
    """Returns the dependencies of pyproject.toml, with the paths that uv's and Poetry's tables give for their names.

    Raises BundlingError for a source of another kind: without it, the name would be another package of an index.
    """
    sources = _sources(project.document)
    return [_with_source(line, sources.get(name_of(line))) for line in project.dependencies()]


def without_stepwell(lines: Iterable[str], places: Sequence[Path]) -> list[str]:
    """Returns the lines but those for a copy of Stepwell: its code is this installation's."""
    return [line for line in lines if not _is_stepwell(line, places)]


def wheels_below(lines: Iterable[str], places: Sequence[Path], wheels: Wheels) -> list[str]:
    """Returns a line for each folder among these lines, and for each folder that one of those depends on.

    A wheel has only the name of such a folder, which may be another package of an index. So these lines are to be
    constraints. Raises BundlingError for a dependency that is neither on an index nor a folder.
    """
    todo = [source for line in lines if (source := _local(line, places))]
    names: dict[Path, str] = {}
    refused: list[tuple[str, BundlingError]] = []
    while todo:
        folder = todo.pop()
        if folder in names:
            continue
        names[folder] = name_of_file(wheels.of(folder))
        for name, source in _sources_needed(folder, wheels.of(folder)):
            if isinstance(source, dict) and "path" in source:
                todo.append((folder / source["path"]).resolve())
            elif kind := _kind(source):
                refused.append((name, _refusal(folder / FILE, name, kind)))
    for name, error in refused:
        if name not in names.values():
            raise error
    return [f"{name} @ {wheels.of(folder).as_uri()}" for folder, name in names.items()]


def _is_stepwell(line: str, places: Sequence[Path]) -> bool:
    source = _local(line, places)
    if name_of(line) == STEPWELL or source is None:
        return name_of(line) == STEPWELL
    if source.is_file():
        return name_of_file(source) == STEPWELL
    return name_of(str(read_document(source / FILE).get("project", {}).get("name", ""))) == STEPWELL


def _sources_needed(folder: Path, wheel: Path) -> Iterator[tuple[str, Any]]:
    sources = _sources(read_document(folder / FILE)) if folder.is_dir() else {}
    return ((name, sources[name]) for name in needs_of(wheel) if name in sources and name != STEPWELL)


def _sources(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns by name where dependencies come from: uv's table, Poetry's, and paths of the list itself."""
    tool = document.get("tool", {})
    listed = (tool.get("poetry", {}).get("dependencies", {}), tool.get("uv", {}).get("sources", {}))
    found = {name_of(name): source for table in listed for name, source in table.items() if name != "python"}
    for line in document.get("project", {}).get("dependencies", ()):
        if path := _path_in(line):
            found[name_of(line)] = {"path": path}
    return found


def _path_in(line: str) -> str:
    found = _LINE.fullmatch(line)
    return unquote(urlsplit(found["place"]).path) if found and found["place"].startswith("file:") else ""


def _with_source(line: str, source: Any) -> str:
    if isinstance(source, dict) and "path" in source:
        requirement, _, marker = line.partition(";")
        extras = re.search(r"\[.*?\]", requirement)
        name = f"{name_of(line)}{extras[0] if extras else ''}"
        return f"{name} @ {source['path']}{f' ; {marker.strip()}' if marker else ''}"
    if kind := _kind(source):
        raise _refusal(Path(FILE), name_of(line), kind)
    return line


def _kind(source: Any) -> str:
    """Returns the kind of a source that is no index."""
    kinds = {"git", "url", "workspace", "path"}
    tables = [one for one in (source if isinstance(source, list) else [source]) if isinstance(one, dict)]
    return min((kind for one in tables for kind in kinds & one.keys()), default="")


def _refusal(file: Path, name: str, kind: str) -> BundlingError:
    return refuse_source(
        str(file), name, f"a {kind}", hint="lock it (uv lock, poetry lock), or depend on its folder too"
    )


def _with_wheel(line: str, places: Sequence[Path], wheels: Wheels) -> str:
    found = _LINE.fullmatch(line.strip())
    source = _local(line, places)
    if not found or source is None:
        return line
    wheel = wheels.of(source)
    extras = found["extras"] or found["more"] or ""
    hashes = found["hashes"] if wheel == source else ""
    return f"{name_of_file(wheel)}{extras} @ {wheel.as_uri()}{_marker(found['marker'])}{hashes}"


def _marker(text: str | None) -> str:
    return f" ; {text.strip().lstrip(';').strip()}" if text else ""


def _local(line: str, places: Sequence[Path]) -> Path | None:
    """Returns the folder or file that a line asks for, if it is one of this machine."""
    found = _LINE.fullmatch(line.strip())
    text = found["place"].strip() if found else "-"
    if not found or text.startswith("-") or ("://" in text and not text.startswith("file://")):
        return None
    if text.startswith("file:"):
        text = unquote(urlsplit(text).path)
    if not (found["editable"] or found["name"] or "/" in text or text.startswith(".")):
        return None  # a requirement of an index, although a folder may have its name
    for place in places:
        path = (place / text).resolve()
        if path.is_dir() or (path.is_file() and path.name.endswith((WHEEL, *ARCHIVES))):
            return path
    return None
