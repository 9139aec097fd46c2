"""Which packages a project's functions get: those of its lock file, or else versions near to those installed here.

uv.lock, poetry.lock       exactly what is locked for the project itself: no groups, no extras
requirements.txt, or none  resolved for the functions' platform; what is installed here is preferred
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import distributions, requires, version
from pathlib import Path
from typing import Any

from uv import find_uv_bin

from stepwell.cdk.entries import (
    COMMAND_ONLY,
    STEPWELL,
    Entry,
    Lock,
    Need,
    closure,
    index_lines,
    read_entries,
    refuse_folder,
)
from stepwell.cdk.errors import BundlingError
from stepwell.cdk.poetry import poetry_entries, poetry_lines
from stepwell.cdk.requirements import wanted_lines, with_given_hashes
from stepwell.project import Project, name_of

# Sources of uv's lock file that are no release on an index.
_NOT_RELEASED = {"editable": "the folder", "directory": "the folder", "virtual": "the folder", "path": "the file",
                 "git": "the repository", "url": "the URL"}  # fmt: skip
TRACING, OTEL = "tracing", "otel"  # the extras of Stepwell that functions may need
_NO_WHEEL = re.compile(r"no wheels with a matching|no usable wheels|has no binary distribution|doesn't have a source"
                       r"|Building source distributions .* is disabled")  # fmt: skip
_WITHOUT = re.compile(r"\b([A-Za-z0-9][\w.-]*?)(?:==([\w.!+-]+))? has no (?:usable )?wheels")


@dataclass(frozen=True, slots=True)
class Target:
    """The platform of the packages: `options` are uv's, `name` is for people."""

    name: str
    options: tuple[str, ...]


def lock(project: Project, into: Path, target: Target, *, asked: Collection[str] = ()) -> Path:
    """Writes the requirements of the project, each pinned, and of Stepwell's own functions. Raises BundlingError.

    `asked`: extras of Stepwell that the functions need.
    """
    out = into / "locked.txt"
    if file := _uv_lock(project):
        _from_uv(project, file, out, asked)
    elif (file := project.root / "poetry.lock").is_file():
        _from_poetry(project, file, out, asked)
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


def run(command: Sequence[str], what: str, target: Target, **options: Any) -> str:
    """Runs a tool and returns its output. Raises BundlingError, `no_wheel` if the platform lacks one."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)  # noqa: S603 - fixed words
    if done.returncode:
        said = "\n".join(text.strip() for text in (done.stdout, done.stderr) if text.strip())
        if _NO_WHEEL.search(" ".join(said.split())):
            found = _WITHOUT.search(" ".join(said.split()))
            name = " ".join(part for part in found.groups() if part) if found else "a package"
            message = f"{what}: {name} has no wheel for {target.name}\n{said}"
            hint = "choose a version that has one, or another package (nothing is compiled here)"
            hint += "; then: stepwell deploy --dry-run"
            raise BundlingError(message, code="no_wheel", hint=hint)
        raise BundlingError(f"{what}: {Path(command[0]).name} ended with {done.returncode}\n{said}")
    return str(done.stdout)


# -- the lock files of uv and Poetry


def _uv_lock(project: Project) -> Path | None:
    """Finds the lock file of the project, or of the workspace above it."""
    if not (own := name_of(str(project.document.get("project", {}).get("name", "")))):
        return None
    for place in (project.root, *project.root.parents):
        if (file := place / "uv.lock").is_file():
            return file if own in read_entries(file) else None
    return None


def _from_uv(project: Project, file: Path, out: Path, asked: Collection[str]) -> None:
    entries = read_entries(file)
    own = name_of(project.document["project"]["name"])
    wanted = closure(entries, own, _uv_needs, asked)
    _check_stepwell(entries, wanted, file, "uv add stepwell; uv lock")
    sources = {name: entry.get("source", {}) for name in wanted for entry in entries.get(name, ())}
    for name, source in sources.items():
        other = next((kind for kind in _NOT_RELEASED if kind in source), None)
        if other and not str(source[other]).endswith(".whl"):
            raise refuse_folder(file.name, name, f"{_NOT_RELEASED[other]} {source[other]}")
    left = [word for name in sorted(entries.keys() - wanted.keys()) for word in ("--no-emit-package", name)]
    words = ("export", "--frozen", "--no-dev", "--no-emit-project", "--no-editable", "--no-header", "--no-annotate")
    nowhere = Target("", ())
    run([find_uv_bin(), *words, "--project", str(project.root), "-o", str(out), "-q", *left], file.name, nowhere)
    indexes = index_lines(source.get("registry", "") for source in sources.values())
    out.write_text("\n".join((*indexes, out.read_text(encoding="utf-8"))), encoding="utf-8")


def _uv_needs(entry: Entry, extras: Collection[str]) -> Iterator[Need]:
    more = [one for extra in extras for one in entry.get("optional-dependencies", {}).get(extra, ())]
    for one in (*entry.get("dependencies", ()), *more):
        yield Need(name_of(one["name"]), tuple(one.get("extra", ())))


def _from_poetry(project: Project, file: Path, out: Path, asked: Collection[str]) -> None:
    entries, wanted = poetry_entries(project, file, asked)
    _check_stepwell(entries, wanted, file, "poetry add stepwell")
    out.write_text("\n".join(poetry_lines(entries, wanted)), encoding="utf-8")


def _check_stepwell(entries: Lock, wanted: Collection[str], file: Path, hint: str) -> None:
    """Refuses a lock file without Stepwell, or with another one, whose functions would not fit this one's stack."""
    if STEPWELL not in entries or not {name_of(one) for one in engine_requirements()} <= {*wanted}:
        message = f"{file.name} has no stepwell among the project's own dependencies"
        raise BundlingError(message, code="stepwell_not_locked", hint=hint)
    locked, here = entries[STEPWELL][0].get("version"), version(STEPWELL)
    if locked not in (None, here):
        message = f"{file.name} has stepwell {locked}, but this command is stepwell {here}"
        raise BundlingError(message, code="other_stepwell", hint="run it in the project's environment, or lock again")


# -- no lock file


def _resolve(project: Project, out: Path, target: Target, extras: Collection[str]) -> None:
    """Pins what requirements.txt or pyproject.toml asks for; uv prefers the versions in its output file."""
    if project.requirements_files:
        lines = wanted_lines(project.requirements_files)
    else:
        lines = [line for line in project.dependencies() if name_of(line) != STEPWELL]
    asked = "\n".join((*lines, *engine_requirements(extras), ""))
    here = sorted({f"{name_of(one.name)}=={one.version}" for one in distributions() if one.name != STEPWELL})
    out.write_text("\n".join((*here, "")), encoding="utf-8")
    words = ["pip", "compile", "-", "-q", "-o", str(out), "--no-header", "--no-annotate", "--emit-index-url",
             "--emit-find-links", *target.options]  # fmt: skip
    hashed = any("--hash" in line for line in lines)
    if hashed:
        words.append("--generate-hashes")
    files = ", ".join(file.name for file in project.requirements_files) or "the dependencies"
    run([find_uv_bin(), *words], files, target, input=asked, cwd=project.root)
    if hashed:  # uv has taken those that the index gives today
        out.write_text(with_given_hashes(out.read_text(encoding="utf-8"), lines), encoding="utf-8")
