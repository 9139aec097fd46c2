"""Which packages a project's functions get: those of its lock file, or else versions near to those installed here.

uv.lock, poetry.lock       exactly what is locked for the project itself: no groups, no extras
requirements.txt, or none  resolved for the functions' platform; what is installed here is preferred
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Set
from importlib.metadata import distributions, requires, version
from pathlib import Path

from uv import find_uv_bin

from stepwell.cdk.errors import BundlingError
from stepwell.cdk.packaging.entries import (
    COMMAND_ONLY,
    STEPWELL,
    Entry,
    Lock,
    Need,
    closure,
    index_lines,
    read_entries,
    refuse_source,
)
from stepwell.cdk.packaging.folders import wheels_below, with_sources, with_wheels, without_stepwell
from stepwell.cdk.packaging.poetry import poetry_entries, poetry_lines
from stepwell.cdk.packaging.requirements import joined_lines, wanted_lines, with_given_hashes
from stepwell.cdk.packaging.tools import Target, run
from stepwell.cdk.packaging.wheels import Wheels, write_stub
from stepwell.project import Project, name_of

# Sources of uv's lock file that are neither a release on an index nor on this machine.
_ELSEWHERE = {"git": "the repository", "url": "the URL"}
TRACING, OTEL, ASL = "tracing", "otel", "asl"  # the extras of Stepwell that functions may need


def lock(project: Project, into: Path, target: Target, *, asked: Collection[str] = ()) -> Path:
    """Writes the requirements of the project, each pinned, and of Stepwell's own functions. Raises BundlingError.

    `asked`: extras of Stepwell that the functions need.
    """
    out = into / "locked.txt"
    if file := _uv_lock(project):
        _from_uv(project, file, out, target, asked)
    elif (file := project.root / "poetry.lock").is_file():
        _from_poetry(project, file, out, target, asked)
    else:
        _resolve(project, out, target, asked)
    return out


def engine_requirements(asked: Collection[str] = ()) -> list[str]:
    """Returns the requirements of Stepwell's functions: those of the installed package, less the command's."""
    found = []
    for requirement in requires(STEPWELL) or ():
        text, _, marker = requirement.partition(";")
        extra = re.search(r"extra\s*==\s*['\"]([\w-]+)", marker)
        wanted = extra[1] in asked if extra else name_of(text) not in COMMAND_ONLY
        if wanted:
            found.append(text.strip() if extra else requirement)
    return found


# -- the lock files of uv and Poetry


def _uv_lock(project: Project) -> Path | None:
    """Finds the lock file of the project, or of the workspace above it."""
    if not (own := name_of(str(project.document.get("project", {}).get("name", "")))):
        return None
    for place in (project.root, *project.root.parents):
        if (file := place / "uv.lock").is_file():
            return file if own in read_entries(file) else None
    return None


def _from_uv(project: Project, file: Path, out: Path, target: Target, asked: Collection[str]) -> None:
    entries = read_entries(file)
    own = name_of(project.document["project"]["name"])
    wanted = closure(entries, own, _uv_needs, asked)
    _check_stepwell(entries, wanted.keys(), file, "uv", asked)
    sources = {name: entry.get("source", {}) for name in wanted for entry in entries.get(name, ())}
    for name, source in sources.items():
        other = next((kind for kind in _ELSEWHERE if kind in source), None)
        if other and not str(source[other]).endswith(".whl"):
            raise refuse_source(file.name, name, f"{_ELSEWHERE[other]} {source[other]}")
    left = [word for name in sorted(entries.keys() - wanted.keys()) for word in ("--no-emit-package", name)]
    words = ("export", "--frozen", "--no-dev", "--no-emit-project", "--no-editable", "--no-header", "--no-annotate")
    nowhere = Target("", ())
    exported = run([find_uv_bin(), *words, "--project", str(project.root), "-q", *left], file.name, nowhere)
    lines = with_wheels(joined_lines(exported), [file.parent], Wheels(out.parent, target))
    indexes = index_lines(source.get("registry", "") for source in sources.values())
    out.write_text("\n".join((*indexes, *lines, "")), encoding="utf-8")


def _uv_needs(entry: Entry, extras: Collection[str]) -> Iterator[Need]:
    more = [one for extra in extras for one in entry.get("optional-dependencies", {}).get(extra, ())]
    for one in (*entry.get("dependencies", ()), *more):
        yield Need(name_of(one["name"]), tuple(one.get("extra", ())))


def _from_poetry(project: Project, file: Path, out: Path, target: Target, asked: Collection[str]) -> None:
    entries, wanted = poetry_entries(project, file, asked)
    _check_stepwell(entries, wanted.keys(), file, "poetry", asked)
    lines = with_wheels(poetry_lines(entries, wanted), [project.root], Wheels(out.parent, target))
    out.write_text("\n".join(lines), encoding="utf-8")


def _check_stepwell(entries: Lock, wanted: Set[str], file: Path, tool: str, asked: Collection[str]) -> None:
    """Refuses a lock file without Stepwell or an extra that is asked, or with another Stepwell than this stack's."""
    if STEPWELL not in entries or not {name_of(one) for one in engine_requirements()} <= {*wanted}:
        message = f"{file.name} has no stepwell among the project's own dependencies"
        raise BundlingError(message, code="stepwell_not_locked", hint=f"{tool} add stepwell; {tool} lock")
    if missing := {name_of(one) for one in engine_requirements(asked)} - (wanted & entries.keys()):
        message = f"{file.name} has no {', '.join(sorted(missing))}, which the functions import"
        hint = f'{tool} add "stepwell[{",".join(sorted(asked))}]"; {tool} lock'
        raise BundlingError(message, code="stepwell_not_locked", hint=hint)
    locked, here = entries[STEPWELL][0].get("version"), version(STEPWELL)
    if locked not in (None, here):
        message = f"{file.name} has stepwell {locked}, but this command is stepwell {here}"
        raise BundlingError(message, code="other_stepwell", hint="run it in the project's environment, or lock again")


# -- no lock file


def _resolve(project: Project, out: Path, target: Target, extras: Collection[str]) -> None:
    """Pins what requirements.txt or pyproject.toml asks for; uv prefers the versions in its output file."""
    files, wheels = project.requirements_files, Wheels(out.parent, target)
    places = [project.root, *(file.parent for file in files)]
    wanted = without_stepwell(wanted_lines(files) if files else with_sources(project), places)
    lines = with_wheels(wanted, places, wheels)
    own = write_stub(out.parent, STEPWELL, version(STEPWELL), engine_requirements(extras))
    constraints = out.parent / "folders.txt"
    ours = [*wheels_below(wanted, places, wheels), f"{STEPWELL} @ {own.as_uri()}", ""]
    constraints.write_text("\n".join(ours), encoding="utf-8")
    asked = "\n".join((*lines, *engine_requirements(extras), ""))
    here = sorted({f"{name_of(one.name)}=={one.version}" for one in distributions() if one.name != STEPWELL})
    out.write_text("\n".join((*here, "")), encoding="utf-8")
    words = ["pip", "compile", "-", "-q", "-o", str(out), "--no-header", "--no-annotate", "--emit-index-url",
             "--emit-find-links", "-c", str(constraints), "--no-emit-package", STEPWELL, *target.options]  # fmt: skip
    hashed = any("--hash" in line for line in lines)
    if hashed:
        words.append("--generate-hashes")
    names = ", ".join(file.name for file in files) or "the dependencies"
    run([find_uv_bin(), *words], names, target, input=asked, cwd=project.root)
    if hashed:  # uv has taken those that the index gives today
        out.write_text(with_given_hashes(out.read_text(encoding="utf-8"), lines), encoding="utf-8")
