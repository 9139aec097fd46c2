"""The entries of a lock file, and which of them a project needs."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from stepwell.cdk.errors import BundlingError
from stepwell.project import name_of

STEPWELL = "stepwell"
# Dependencies of Stepwell that no function imports.
COMMAND_ONLY = frozenset({"cel-expr-python", "httpx", "rich", "typer"})
_PYPI = "https://pypi.org/simple"

Entry: TypeAlias = Mapping[str, Any]  # of a lock file
Lock: TypeAlias = Mapping[str, Sequence[Entry]]  # by name


class Need(NamedTuple):
    """A package that another one needs, with these of its extras, where the marker holds."""

    name: str
    extras: tuple[str, ...] = ()
    marker: str = ""


Needs: TypeAlias = Callable[[Entry, Collection[str]], Iterator[Need]]


def read_entries(file: Path) -> Lock:
    """Reads a lock file. Raises BundlingError `bad_lock`."""
    found: dict[str, list[Entry]] = {}
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BundlingError(f"{file}: {error}", code="bad_lock", hint="lock again") from error
    for entry in document.get("package", ()):
        found.setdefault(name_of(entry["name"]), []).append(entry)
    return found


def closure(entries: Lock, own: str, needs: Needs, asked: Collection[str]) -> Mapping[str, set[str]]:
    """Returns what a project needs, by name, with the markers. Of Stepwell it needs what the functions import."""
    done: set[tuple[str, tuple[str, ...]]] = set()
    wanted: dict[str, set[str]] = {}
    todo: list[tuple[str, tuple[str, ...]]] = [(own, ())]
    while todo:
        name, extras = one = todo.pop()
        if one in done:
            continue
        done.add(one)
        for need in (need for entry in entries.get(name, ()) for need in needs(entry, extras)):
            if need.name == STEPWELL:
                todo.append((STEPWELL, tuple(sorted(asked))))
            elif name != STEPWELL or need.name not in COMMAND_ONLY:
                wanted.setdefault(need.name, set()).add(need.marker)
                todo.append((need.name, need.extras))
    return wanted


def index_lines(urls: Iterable[str]) -> list[str]:
    """Returns the lines of a requirements file for the indexes beside PyPI that packages were locked from."""
    others = dict.fromkeys(url for url in urls if url and url.rstrip("/") != _PYPI)
    return [f"--extra-index-url {url}" for url in others]


def refuse_source(file: str, name: str, origin: str, *, hint: str = "") -> BundlingError:
    """Returns the error for a package that is neither a release on an index nor on this machine."""
    hint = hint or "depend on a release, on a wheel, or on a folder of this machine, which is built to a wheel"
    return BundlingError(f"{file}: {name} comes from {origin}, which cannot be packed", hint=hint)
