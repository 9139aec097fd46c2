"""Which packages a project's functions get: those of its lock file, or else versions near to those installed here.

uv.lock, poetry.lock       exactly what is locked for the project itself: no groups, no extras
requirements.txt, or none  resolved for the functions' platform; what is installed here is preferred
"""

from __future__ import annotations

import re
import subprocess
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import distributions, requires, version
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from uv import find_uv_bin

from stepwell.cdk.errors import BundlingError
from stepwell.project import Project, name_of

STEPWELL = "stepwell"
# Dependencies of Stepwell that no function imports.
COMMAND_ONLY = frozenset({"cel-expr-python", "httpx", "rich", "typer"})
TRACING, OTEL = "tracing", "otel"  # the extras of Stepwell that functions may need
_NO_WHEEL = re.compile(r"no wheels with a matching|no usable wheels|has no binary distribution|doesn't have a source"
                       r"|Building source distributions .* is disabled")  # fmt: skip

Entry: TypeAlias = Mapping[str, Any]  # of a lock file
Lock: TypeAlias = Mapping[str, Sequence[Entry]]  # by name


class Need(NamedTuple):
    """A package that another one needs, with these of its extras, where the marker holds."""

    name: str
    extras: tuple[str, ...] = ()
    marker: str = ""


Needs: TypeAlias = Callable[[Entry, Collection[str]], Iterator[Need]]


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
            message = f"{what}: a package has no wheel for {target.name}\n{said}"
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
            return file if own in _entries(file) else None
    return None


def _from_uv(project: Project, file: Path, out: Path, asked: Collection[str]) -> None:
    entries = _entries(file)
    own = name_of(project.document["project"]["name"])
    wanted = _closure(entries, own, _uv_needs, asked)
    _check_stepwell(entries, wanted, file, "uv add stepwell; uv lock")
    left = [word for name in sorted(entries.keys() - wanted.keys()) for word in ("--no-emit-package", name)]
    words = ("export", "--frozen", "--no-dev", "--no-emit-project", "--no-editable", "--no-header", "--no-annotate")
    nowhere = Target("", ())
    run([find_uv_bin(), *words, "--project", str(project.root), "-o", str(out), "-q", *left], file.name, nowhere)


def _uv_needs(entry: Entry, extras: Collection[str]) -> Iterator[Need]:
    more = [one for extra in extras for one in entry.get("optional-dependencies", {}).get(extra, ())]
    for one in (*entry.get("dependencies", ()), *more):
        yield Need(name_of(one["name"]), tuple(one.get("extra", ())))


def _from_poetry(project: Project, file: Path, out: Path, asked: Collection[str]) -> None:
    own = "the project"  # which has no entry in Poetry's lock file
    entries = {**_entries(file), own: [{"dependencies": _poetry_dependencies(project)}]}
    wanted = _closure(entries, own, _poetry_needs, asked)
    _check_stepwell(entries, wanted, file, "poetry add stepwell")
    lines = [_pinned(entry, wanted[name]) for name in sorted(wanted) for entry in entries.get(name, ())]
    out.write_text("\n".join(lines), encoding="utf-8")


def _poetry_dependencies(project: Project) -> Mapping[str, object]:
    """Returns the project's dependencies as an entry of the lock file has them: pyproject's list, or Poetry's table."""
    listed = project.document.get("project", {}).get("dependencies", ())
    extras = {name_of(text): (re.search(r"\[(.*?)\]", text) or ["", ""])[1] for text in listed}
    own = project.document.get("tool", {}).get("poetry", {}).get("dependencies", {})
    found = {name: {"extras": re.findall(r"[\w-]+", text)} for name, text in extras.items()}
    return {**found, **{name: one for name, one in own.items() if name != "python"}}


def _poetry_needs(entry: Entry, extras: Collection[str]) -> Iterator[Need]:
    asked = {name_of(text) for extra in extras for text in entry.get("extras", {}).get(extra, ())}
    for name, given in entry.get("dependencies", {}).items():
        for one in given if isinstance(given, list) else [given]:
            table = one if isinstance(one, dict) else {}
            if not table.get("optional") or name_of(name) in asked:
                marker = "" if table.get("optional") else str(table.get("markers", ""))
                yield Need(name_of(name), tuple(table.get("extras", ())), marker)


def _pinned(entry: Entry, markers: Collection[str]) -> str:
    """Returns a line of a requirements file, which holds where one of the markers does."""
    source = entry.get("source", {})
    if source.get("type") not in (None, "legacy"):
        message = f"poetry.lock: {entry['name']} comes from {source['type']}, which cannot be packed"
        raise BundlingError(message, hint="depend on a released version")
    condition = "" if "" in markers else " ; " + " or ".join(f"({one})" for one in sorted(markers))
    hashes = "".join(f" --hash={file['hash']}" for file in entry.get("files", ()))
    return f"{entry['name']}=={entry['version']}{condition}{hashes}"


def _entries(file: Path) -> Lock:
    """Reads a lock file. Raises BundlingError `bad_lock`."""
    found: dict[str, list[Entry]] = {}
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BundlingError(f"{file}: {error}", code="bad_lock", hint="lock again") from error
    for entry in document.get("package", ()):
        found.setdefault(name_of(entry["name"]), []).append(entry)
    return found


def _closure(entries: Lock, own: str, needs: Needs, asked: Collection[str]) -> Mapping[str, set[str]]:
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
    lines = _without_stepwell(project)
    asked = "\n".join((*lines, *engine_requirements(extras), ""))
    here = sorted({f"{name_of(one.name)}=={one.version}" for one in distributions() if one.name != STEPWELL})
    out.write_text("\n".join((*here, "")), encoding="utf-8")
    words = ["pip", "compile", "-", "-q", "-o", str(out), "--no-header", "--no-annotate", *target.options]
    if any("--hash=" in line for line in lines):
        words.append("--generate-hashes")
    files = ", ".join(file.name for file in project.requirements_files) or "the dependencies"
    run([find_uv_bin(), *words], files, target, input=asked, cwd=project.root)


def _without_stepwell(project: Project) -> list[str]:
    """The project's requirements without Stepwell, whose code is this installation's."""
    if not project.requirements_files:
        return [line for line in project.dependencies() if name_of(line) != STEPWELL]
    lines = []
    for file in project.requirements_files:
        whole = re.sub(r"\\\r?\n", " ", file.read_text(encoding="utf-8"))
        lines += [line for line in whole.splitlines() if name_of(line) != STEPWELL]
    return lines
