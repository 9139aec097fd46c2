"""Which packages a project's functions get: those of its lock file, or else versions near to those installed here.

uv.lock, poetry.lock       exactly what is locked for the project itself: no groups, no extras
requirements.txt, or none  resolved for the functions' platform; what is installed here is preferred
"""

from __future__ import annotations

import re
import subprocess
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import distributions, requires, version
from pathlib import Path
from typing import Any

from uv import find_uv_bin

from stepwell.cdk.errors import BundlingError
from stepwell.project import Project, name_of

STEPWELL = "stepwell"
COMMAND_ONLY = frozenset({"httpx", "rich", "typer"})  # dependencies of Stepwell that no function imports
TRACING = "tracing"  # the extra of Stepwell that functions may need
_NO_WHEEL = re.compile(r"no wheels with a matching|no usable wheels|has no binary distribution|doesn't have a source"
                       r"|Building source distributions .* is disabled")  # fmt: skip

Lock = Mapping[str, Sequence[Mapping[str, Any]]]  # the entries of a lock file by name


@dataclass(frozen=True, slots=True)
class Target:
    """The platform of the packages: `options` are uv's, `name` is for people."""

    name: str
    options: tuple[str, ...]


def lock(project: Project, into: Path, target: Target, *, tracing: bool = False) -> Path:
    """Writes the requirements of the project, each pinned, and of Stepwell's own functions. Raises BundlingError."""
    out = into / "locked.txt"
    if file := _uv_lock(project):
        _from_uv(project, file, out, tracing)
    elif (file := project.root / "poetry.lock").is_file():
        _from_poetry(project, file, out, tracing)
    else:
        _resolve(project, out, target, tracing)
    return out


def engine_requirements(*, tracing: bool = False) -> list[str]:
    """Returns the requirements of Stepwell's functions: those of the installed package, less the command's."""
    found = []
    for requirement in requires(STEPWELL) or ():
        text, _, marker = requirement.partition(";")
        extra = re.search(r"extra\s*==\s*['\"]([\w-]+)", marker)
        wanted = extra[1] == TRACING and tracing if extra else name_of(text) not in COMMAND_ONLY
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
            hint = "choose a version that has one, or another package; packages are not compiled here"
            raise BundlingError(message, code="no_wheel", hint=hint)
        raise BundlingError(f"{what}: {Path(command[0]).name} ended with {done.returncode}\n{said}")
    return str(done.stdout)


# -- uv


def _uv_lock(project: Project) -> Path | None:
    """Finds the lock file of the project, or of the workspace above it."""
    if not (own := name_of(str(project.document.get("project", {}).get("name", "")))):
        return None
    for place in (project.root, *project.root.parents):
        if (file := place / "uv.lock").is_file():
            return file if own in _entries(file) else None
    return None


def _from_uv(project: Project, file: Path, out: Path, tracing: bool) -> None:
    entries = _entries(file)
    own = name_of(project.document["project"]["name"])
    wanted = _closure(entries, own, _uv_needs, tracing)
    _check_stepwell(entries, own, wanted, file, "uv add stepwell; uv lock")
    left = [word for name in sorted({*entries} - wanted) for word in ("--no-emit-package", name)]
    words = ("export", "--frozen", "--no-dev", "--no-emit-project", "--no-editable", "--no-header", "--no-annotate")
    nowhere = Target("", ())
    run([find_uv_bin(), *words, "--project", str(project.root), "-o", str(out), "-q", *left], file.name, nowhere)


def _uv_needs(entry: Mapping[str, Any], extras: Collection[str]) -> Iterator[tuple[str, Collection[str]]]:
    more = [one for extra in extras for one in entry.get("optional-dependencies", {}).get(extra, ())]
    for one in (*entry.get("dependencies", ()), *more):
        yield name_of(one["name"]), one.get("extra", ())


# -- Poetry


def _from_poetry(project: Project, file: Path, out: Path, tracing: bool) -> None:
    entries = dict(_entries(file))
    direct = [(name_of(text), re.findall(r"[\w-]+", (re.search(r"\[(.*?)\]", text) or ["", ""])[1]))
              for text in project.document.get("project", {}).get("dependencies", ())]  # fmt: skip
    listed = project.document.get("tool", {}).get("poetry", {}).get("dependencies", {})
    direct += [(name_of(name), one.get("extras", []) if isinstance(one, dict) else [])
               for name, one in listed.items() if name != "python"]  # fmt: skip
    entries[""] = [{"name": "", "direct": direct}]
    markers: dict[str, set[str]] = {}
    wanted = _closure(entries, "", lambda entry, extras: _poetry_needs(entry, extras, markers), tracing)
    _check_stepwell(entries, "", wanted, file, "poetry add stepwell")
    lines = [_pinned(entry, markers.get(name, set())) for name in sorted(wanted) for entry in entries.get(name, ())]
    out.write_text("\n".join(lines), encoding="utf-8")


def _poetry_needs(
    entry: Mapping[str, Any], extras: Collection[str], markers: dict[str, set[str]]
) -> Iterator[tuple[str, Collection[str]]]:
    """Yields what an entry needs, and notes under which markers."""
    yield from entry.get("direct", ())
    for _ in entry.get("direct", ()):
        markers.setdefault(_[0], set()).add("")
    asked = {name_of(text) for extra in extras for text in entry.get("extras", {}).get(extra, ())}
    for name, given in entry.get("dependencies", {}).items():
        for one in given if isinstance(given, list) else [given]:
            table = one if isinstance(one, dict) else {}
            if not table.get("optional") or name_of(name) in asked:
                marker = "" if table.get("optional") else str(table.get("markers", ""))
                markers.setdefault(name_of(name), set()).add(marker)
                yield name_of(name), table.get("extras", ())


def _pinned(entry: Mapping[str, Any], markers: Collection[str]) -> str:
    source = entry.get("source", {})
    if source.get("type") not in (None, "legacy"):
        message = f"poetry.lock: {entry['name']} comes from {source['type']}, which cannot be packed"
        raise BundlingError(message, hint="depend on a released version")
    condition = "" if "" in markers or not markers else " ; " + " or ".join(f"({one})" for one in sorted(markers))
    hashes = "".join(f" --hash={file['hash']}" for file in entry.get("files", ()))
    return f"{entry['name']}=={entry['version']}{condition}{hashes}"


# -- no lock file


def _resolve(project: Project, out: Path, target: Target, tracing: bool) -> None:
    """Pins what requirements.txt or pyproject.toml asks for; uv prefers the versions in its output file."""
    lines = _without_stepwell(project)
    asked = "\n".join((*lines, *engine_requirements(tracing=tracing), ""))
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


# -- both lock files


def _entries(file: Path) -> Lock:
    found: dict[str, list[Mapping[str, Any]]] = {}
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BundlingError(f"{file}: {error}", code="bad_lock", hint="lock again") from error
    for entry in document.get("package", ()):
        found.setdefault(name_of(entry["name"]), []).append(entry)
    return found


def _closure(entries: Lock, own: str, needs: Any, tracing: bool) -> set[str]:
    """Returns the names that a project needs. Of Stepwell it needs what the functions import."""
    done: set[tuple[str, tuple[str, ...]]] = set()
    todo: list[tuple[str, tuple[str, ...]]] = [(own, (TRACING,) if tracing and own == STEPWELL else ())]
    while todo:
        name, extras = one = todo.pop()
        if one in done:
            continue
        done.add(one)
        for entry in entries.get(name, ()):
            for other, asked in needs(entry, extras):
                if name != STEPWELL or other not in COMMAND_ONLY:
                    chosen = [extra for extra in asked if other != STEPWELL or extra == TRACING]
                    todo.append((other, tuple(sorted(chosen))))
    return {name for name, _ in done} - {own, STEPWELL}


def _check_stepwell(entries: Lock, own: str, wanted: Iterable[str], file: Path, hint: str) -> None:
    if own == STEPWELL:
        return
    if STEPWELL not in entries or not {name_of(one) for one in engine_requirements()} <= {*wanted}:
        message = f"{file.name} has no stepwell among the project's own dependencies"
        raise BundlingError(message, code="stepwell_not_locked", hint=hint)
    locked, here = entries[STEPWELL][0].get("version"), version(STEPWELL)
    if locked not in (None, here):
        message = f"{file.name} has stepwell {locked}, but this command is stepwell {here}"
        raise BundlingError(message, code="other_stepwell", hint="run it in the project's environment, or lock again")
