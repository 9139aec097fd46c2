"""Builds packages that lie on this machine into wheels: members of a workspace, path dependencies.

A requirement for a folder or a source archive becomes one for its wheel:

    -e ../till ; python_version >= "3.11"    ->    till @ file:///…/till-1.0-py3-none-any.whl ; python_version >= "3.11"
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from uv import find_uv_bin

from stepwell.cdk.entries import refuse_source
from stepwell.cdk.errors import BundlingError
from stepwell.cdk.tools import Target, run
from stepwell.project import Project, name_of

_LINE = re.compile(
    r"(?P<editable>(?:-e|--editable)[ =]\s*)?"
    r"(?:(?P<name>[A-Za-z0-9][\w.-]*)\s*(?P<extras>\[[^\]]*\])?\s*@\s*)?"
    r"(?P<place>.+?)(?P<more>\[[\w\s,.-]*\])?(?:#egg=[^\s;]*)?"
    r"(?P<marker>\s+;.*?|;\s.*?)?(?P<hashes>(?:\s+--hash[ =]\S+)*)(?:\s+#.*)?\s*"
)
_ARCHIVES = (".tar.gz", ".zip")
_WHEEL = ".whl"
_PURE = "-none-any.whl"


def with_wheels(lines: Iterable[str], places: Sequence[Path], into: Path, target: Target) -> list[str]:
    """Returns the lines of a requirements file with a wheel in place of each folder and archive of this machine.

    A relative path is looked for from each of `places` in turn. Wheels are built below `into`. Raises BundlingError.
    """
    return [_with_wheel(line, places, into, target) for line in lines]


def with_sources(project: Project) -> list[str]:
    """Returns the dependencies of pyproject.toml, with the paths that uv's and Poetry's tables give for their names.

    Raises BundlingError for a source of another kind: without it, the name would be another package of an index.
    """
    sources = _sources(project.document)
    return [_with_source(line, sources.get(name_of(line))) for line in project.dependencies()]


def _sources(document: Mapping[str, Any]) -> Mapping[str, Any]:
    tool = document.get("tool", {})
    listed = (tool.get("uv", {}).get("sources", {}), tool.get("poetry", {}).get("dependencies", {}))
    return {name_of(name): source for table in listed for name, source in table.items() if name != "python"}


def _with_source(line: str, source: Any) -> str:
    if isinstance(source, dict) and "path" in source:
        requirement, _, marker = line.partition(";")
        extras = re.search(r"\[.*?\]", requirement)
        name = f"{name_of(line)}{extras[0] if extras else ''}"
        return f"{name} @ {source['path']}{f' ; {marker.strip()}' if marker else ''}"
    kinds = {"git", "url", "workspace", "path"}
    for one in source if isinstance(source, list) else [source]:
        if isinstance(one, dict) and (found := kinds & one.keys()):
            raise refuse_source(
                "pyproject.toml", name_of(line), f"a {min(found)}", hint="lock it: uv lock, poetry lock"
            )
    return line


def _with_wheel(line: str, places: Sequence[Path], into: Path, target: Target) -> str:
    found = _LINE.fullmatch(line.strip())
    source = _local(found, places) if found else None
    if not found or source is None:
        return line
    is_wheel = source.name.endswith(_WHEEL)
    wheel = source if is_wheel else _build(source, into, target)
    extras = found["extras"] or found["more"] or ""
    name = wheel.name.partition("-")[0]
    return f"{name_of(name)}{extras} @ {wheel.as_uri()}{_marker(found['marker'])}{found['hashes'] if is_wheel else ''}"


def _marker(text: str | None) -> str:
    return f" ; {text.strip().lstrip(';').strip()}" if text else ""


def _local(found: re.Match[str], places: Sequence[Path]) -> Path | None:
    """Returns the folder or file that a line asks for, if it is one of this machine."""
    text = found["place"].strip()
    if text.startswith("-") or ("://" in text and not text.startswith("file://")):
        return None
    if text.startswith("file:"):
        text = unquote(urlsplit(text).path)
    if not (found["editable"] or found["name"] or "/" in text or text.startswith(".")):
        return None  # a requirement of an index, although a folder may have its name
    for place in places:
        path = (place / text).resolve()
        if path.is_dir() or (path.is_file() and path.name.endswith((_WHEEL, *_ARCHIVES))):
            return path
    return None


def _build(source: Path, into: Path, target: Target) -> Path:
    """Builds a wheel by way of a source archive, as for a release: no file of an earlier build gets into it."""
    out = into / "wheels" / str(len([*(into / "wheels").glob("*")]))
    only = ("--wheel",) if source.is_file() else ()
    words = ("build", "--python", sys.executable, "-o", str(out), *only)
    run([find_uv_bin(), *words, str(source)], str(source), target)
    (wheel,) = out.glob(f"*{_WHEEL}")
    if not (target.is_this_machine or wheel.name.endswith(_PURE)):
        message = f"{source}: {wheel.name} has compiled code, and no wheel for {target.name}"
        hint = "depend on a release that has one, or another package (nothing is compiled for Lambda here)"
        raise BundlingError(message, code="no_wheel", hint=hint)
    return wheel
