"""Poetry's lock file as lines of a requirements file."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from stepwell.cdk.errors import BundlingError
from stepwell.cdk.packaging.entries import Entry, Lock, Need, closure, index_lines, read_entries, refuse_source
from stepwell.project import Project, name_of

_OWN = "the project"  # which has no entry in Poetry's lock file
_HERE = ("directory", "file")  # kinds of sources on this machine
_MAIN = "main"  # the group of a project's own dependencies


def poetry_entries(project: Project, file: Path, asked: Collection[str]) -> tuple[Lock, Mapping[str, set[str]]]:
    """Returns the entries of the lock file, and what the project needs of them, with the markers."""
    entries = {**read_entries(file), _OWN: [{"dependencies": _dependencies(project)}]}
    return entries, closure(entries, _OWN, _needs, asked)


def poetry_lines(entries: Lock, wanted: Mapping[str, set[str]]) -> list[str]:
    """Returns the pinned packages, after the indexes that they come from. Raises BundlingError."""
    chosen = [(entry, wanted[name]) for name in sorted(wanted) for entry in _versions(entries, name)]
    urls = (entry.get("source", {}).get("url", "") for entry, _ in chosen)
    pinned = [_pinned(entry, markers) for entry, markers in chosen]
    return [*index_lines(urls), *pinned]


def _dependencies(project: Project) -> Mapping[str, object]:
    """Returns the project's dependencies as an entry of the lock file has them: pyproject's list, or Poetry's table."""
    listed = project.document.get("project", {}).get("dependencies", ())
    found: dict[str, list[object]] = {}
    for text in listed:
        extras = (re.search(r"\[(.*?)\]", text) or ["", ""])[1]
        found.setdefault(name_of(text), []).append({"extras": re.findall(r"[\w-]+", extras)})
    own = project.document.get("tool", {}).get("poetry", {}).get("dependencies", {})
    return {**found, **{name: one for name, one in own.items() if name != "python"}}


def _needs(entry: Entry, extras: Collection[str]) -> Iterator[Need]:
    asked = {name_of(text) for extra in extras for text in entry.get("extras", {}).get(extra, ())}
    for name, given in entry.get("dependencies", {}).items():
        for one in given if isinstance(given, list) else [given]:
            table = one if isinstance(one, dict) else {}
            if not table.get("optional") or name_of(name) in asked:
                marker = "" if table.get("optional") else str(table.get("markers", ""))
                yield Need(name_of(name), tuple(table.get("extras", ())), marker)


def _versions(entries: Lock, name: str) -> list[Entry]:
    """Returns the entries of a package: several if Poetry locked a version for each of several platforms."""
    found = [entry for entry in entries.get(name, ()) if _MAIN in entry.get("groups", [_MAIN])]
    if len(found) > 1 and not all(entry.get("markers") for entry in found):
        message = f"poetry.lock has several versions of {name}, and does not say which is for which Python"
        raise BundlingError(message, code="bad_lock", hint="lock again with Poetry 2 or later: poetry lock")
    return found


def _pinned(entry: Entry, markers: Collection[str]) -> str:
    """Returns a line of a requirements file, which holds where the entry's marker, or else one of the markers, does."""
    source = entry.get("source", {})
    if source.get("type") not in (None, "legacy", *_HERE):
        raise refuse_source("poetry.lock", entry["name"], f"{source['type']} {source.get('url', '')}".rstrip())
    own = entry.get("markers", "")
    condition = own.get(_MAIN, "") if isinstance(own, dict) else own
    if not condition and "" not in markers:
        condition = " or ".join(f"({one})" for one in sorted(markers))
    if source.get("type") in _HERE:
        return f"{entry['name']} @ {source['url']}{f' ; {condition}' if condition else ''}"
    hashes = "".join(f" --hash={file['hash']}" for file in entry.get("files", ()))
    return f"{entry['name']}=={entry['version']}{f' ; {condition}' if condition else ''}{hashes}"
