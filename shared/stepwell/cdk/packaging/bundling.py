"""Builds the functions' packages without Docker: uv installs the wheels of the project's lock file.

engine   stepwell/  its dependencies  workflows.json                    every function but the workers
worker   the same, the project's dependencies, and the project below project/     the workers
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import distributions, version
from pathlib import Path
from typing import Any

from uv import find_uv_bin

import stepwell
from stepwell.cdk.errors import BundlingError
from stepwell.cdk.packaging.bytecode import UNDOCUMENTED, compile_tree, interpreter_of, link_compiled
from stepwell.cdk.packaging.locking import ASL, engine_requirements, lock
from stepwell.cdk.packaging.tools import Target, run
from stepwell.cdk.packaging.trimming import UNREAD, UNREAD_BY_OURS, open_to_all, remove, remove_stubs, trim_compiled
from stepwell.definition.targets import parse_hosts
from stepwell.errors import DefinitionError, Problem, StepwellError
from stepwell.project import Project, name_of
from stepwell.runtime.folder.facts import function_facts
from stepwell.runtime.folder.pack import pack_folder
from stepwell.scan import is_hidden

PACKAGE = Path(stepwell.__file__).parent
# A wheel has the handlers in the package, a clone of the repository beside its folder `shared`.
HANDLERS = next(place for place in (PACKAGE / "functions", PACKAGE.parents[1] / "functions") if place.is_dir())
PACKED = "workflows.json"
PROJECT = "project"  # the folder of the user's code in the workers' package
MOST_BYTES = 262_144_000  # Lambda's limit, unpacked
LARGEST = 3  # how many names a report has
CONSOLE = "console"  # the files of the web console, which only a stack that serves it needs
_HOSTS = "http_hosts"  # the property of which a hint speaks
# Parts of stepwell for local use only.
NOT_DEPLOYED = (
    "__main__.py",
    "cdk",
    "cli",
    "functions",
    "local",
    "testing",
    "client/forks.py",
    "cors.py",
    "os_errors.py",
    "repeated.py",
    "reports.py",
    "api/webhooks/sending.py",
    "aws/alarm_states.py",
    "aws/emulation",
    "aws/services/checks.py",
    "definition/code",
    "definition/editor_schema.py",
    "project.py",
    "runtime/folder/circles.py",
    "runtime/folder/code.py",
    "runtime/folder/facts.py",
    "runtime/folder/fired.py",
    "runtime/folder/imports.py",
    "runtime/folder/loading.py",
    "runtime/folder/own_names.py",
    "runtime/folder/pack.py",
    "runtime/folder/placing.py",
    "runtime/folder/sources.py",
    "runtime/folder/unheard.py",
    "runtime/starts/deploys.py",
    "simulation/history.py",
)
# Parts of stepwell that workers alone import: they run steps, and call other systems.
OF_WORKERS = (
    "aws/calling.py",
    "aws/services",
    "client",
    "runtime/executor.py",
    "runtime/steps/calls.py",
    "runtime/steps/http_invoke.py",
    "runtime/steps/services.py",
)
_GLIBC = re.compile(r"manylinux_2_(\d+)_")
_SLOW = (
    "without bytecode, because this machine has no Python {0}: cold starts take twice as long (uv python install {0})"
)
# Lambda's Python 3.11 runs on Amazon Linux 2, whose glibc is older than uv's platforms are.
_OLDEST_GLIBC = {"3.11": 26}


@dataclass(frozen=True, slots=True)
class Bundles:
    """The folders of the two packages, and the packed workflows."""

    engine: Path
    worker: Path
    packed: Mapping[str, Any]
    uncompiled: str = ""  # the version of Python that could not compile them, because this machine has none

    def report(self) -> str:
        """Describes the size of the packages, and what is large in the larger one."""
        return f"{self._sizes()}{f'; {_SLOW.format(self.uncompiled)}' if self.uncompiled else ''}"

    def _sizes(self) -> str:
        parts = ", ".join(f"{name} {_mb(size)}" for name, size in largest(self.worker)[:LARGEST])
        sizes = f"the workers' package has {_mb(size_bytes(self.worker))}, the others' {_mb(size_bytes(self.engine))}"
        return f"{sizes}, of {_mb(MOST_BYTES)} that Lambda allows; largest: {parts}"


def target_of(platform: str, python: str) -> Target:
    """Returns where the packages will run: on Lambda, or on this machine for an emulator."""
    if platform == "local":
        return Target("this Python", ("--python", sys.executable), is_this_machine=True)
    options = ("--python-platform", "aarch64-manylinux_2_28", "--python-version", python, "--only-binary", ":all:")
    return Target(f"Lambda (arm64, Python {python})", options)


def build(
    project: Project,
    into: Path,
    *,
    pools: Collection[str],
    platform: str,
    python: str = "",
    asked: Collection[str] = (),
    http_hosts: Collection[str] = (),
    has_console: bool = False,
) -> Bundles:
    """Builds both packages of a project below `into`, with these extras of Stepwell. Raises BundlingError.

    `has_console`: the engine's package has the files of the console, for the API to serve.
    """
    engine, worker = into / "engine", into / "worker"
    if has_console:
        _check_console()
    packed = pack(project, pools, http_hosts)  # first, because it is quick and reports the user's mistakes
    asked = (*asked, ASL) if has_jsonata(packed["definitions"]) else asked
    python = python or project.python
    target = target_of(platform, python)
    install(worker, lock(project, into, target, asked=asked), target)
    if platform == "lambda":
        check_glibc(worker, python)
    trim_compiled(worker)
    copy_needed(worker, engine, asked)
    remove(engine, UNREAD_BY_OURS)
    for tree in (engine, worker):
        remove(tree, UNREAD)
        remove_stubs(tree)
        _copy_own(tree, _left_out(is_engine=tree == engine, has_console=has_console))
        (tree / PACKED).write_text(json.dumps(packed), encoding="utf-8")
    copy_project(project, worker / PROJECT)
    bundles = Bundles(engine, worker, packed, _compiled(engine, worker, python) if platform == "lambda" else "")
    for tree in (engine, worker):
        open_to_all(tree)
    if size_bytes(worker) > MOST_BYTES:
        raise BundlingError(
            bundles.report(), code="package_too_large", hint="remove a dependency, or call it over HTTP"
        )
    return bundles


def pack(project: Project, pools: Collection[str], http_hosts: Collection[str] = ()) -> Mapping[str, Any]:
    """Checks the definitions. Returns the content of the packed file. Raises BundlingError."""
    try:
        packed = pack_folder(project.folder, parse_hosts(tuple(http_hosts)))
    except DefinitionError as error:
        message = "\n".join((error.message, *map(str, map(_with_place, error.problems))))
        raise BundlingError(message, code=error.code, hint=error.hint) from error
    except StepwellError as error:
        raise BundlingError(error.message, code=error.code, hint=error.hint) from error
    missing = sorted(set(packed["pools"]) - set(pools))
    if missing:
        raise BundlingError(
            f"the workflows of {project.folder} run steps in pools that there are not: {', '.join(missing)} "
            f"(there are: {', '.join(sorted(pools))}; add to the context `pools`)"
        )
    return {
        **packed,
        "functions": function_facts(project.folder, project.sources[1:]),
        "paths": [f"{PROJECT}/{_inside(project, path)}" for path in project.paths],
    }


def _with_place(problem: Problem) -> Problem:
    """Returns a problem whose hint says where the property is that it names."""
    if not problem.hint.endswith(_HOSTS):
        return problem
    return replace(problem, hint=f"{problem.hint}, in [tool.stepwell] of pyproject.toml or in `context` of cdk.json")


def has_jsonata(definitions: Any) -> bool:
    """Tells whether one of these is a state machine, or has a state, whose expressions are JSONata."""
    if isinstance(definitions, list):
        return any(map(has_jsonata, definitions))
    if not isinstance(definitions, dict):
        return False
    return definitions.get("QueryLanguage") == "JSONata" or any(map(has_jsonata, definitions.values()))


@cache
def pack_definitions(folder: Path, pools: tuple[str, ...], http_hosts: tuple[str, ...]) -> Mapping[str, Any]:
    """Returns a folder's definitions without building a package; once for each folder."""
    return pack(Project(folder, folder), pools, http_hosts)


def install(into: Path, locked: Path, target: Target) -> None:
    """Installs the pinned requirements for the platform, with hash checks if they have hashes. Raises BundlingError."""
    words = ("pip", "install", "-q", "--no-deps", "--target", str(into), "-r", str(locked))
    run([find_uv_bin(), *words, *target.options], "the dependencies", target)


def check_glibc(tree: Path, python: str) -> None:
    """Refuses wheels for a newer C library than that of Lambda's Python. Raises BundlingError `no_wheel`."""
    oldest = _OLDEST_GLIBC.get(python)
    for found in distributions(path=[str(tree)]) if oldest else ():
        versions = [int(one) for one in _GLIBC.findall(found.read_text("WHEEL") or "")]
        if oldest and versions and min(versions) > oldest:
            message = f"{found.name} {found.version} has no wheel for Lambda (arm64, Python {python})"
            raise BundlingError(message, code="no_wheel", hint="set python in [tool.stepwell] to 3.12 or later")


def copy_needed(worker: Path, engine: Path, asked: Collection[str]) -> None:
    """Links what Stepwell's own functions need into their package."""
    there = {name_of(found.name): found for found in distributions(path=[str(worker)])}
    todo, done = [name_of(one) for one in engine_requirements(asked)], set()
    while todo:
        name = todo.pop()
        if name in done or name not in there:
            continue
        done.add(name)
        todo += [name_of(one) for one in there[name].requires or () if "extra ==" not in one]
        for file in there[name].files or ():
            source = worker / file
            if ".." not in file.parts and source.is_file():
                (engine / file).parent.mkdir(parents=True, exist_ok=True)
                os.link(source, engine / file)


def _compiled(engine: Path, worker: Path, python: str) -> str:
    """Compiles the packages. Returns the version that they could not be compiled for."""
    interpreter = interpreter_of(python)
    if not interpreter:
        return python
    compile_tree(worker, interpreter, [worker / "stepwell" / name for name in UNDOCUMENTED], own=worker.glob(PROJECT))
    link_compiled(worker, engine)
    return ""


def copy_project(project: Project, into: Path) -> None:
    """Copies the workflow folder and the project's packages, without caches and hidden files, which may be secrets."""
    for path in dict.fromkeys((project.folder, *(project.root / package for package in project.packages))):
        target = into / _inside(project, path)
        if path.is_dir():
            shutil.copytree(path, target, ignore=_not_copied, dirs_exist_ok=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)


def size_bytes(tree: Path) -> int:
    """Returns the size of the files below a folder."""
    return sum(file.stat().st_size for file in tree.rglob("*") if file.is_file())


def largest(tree: Path) -> list[tuple[str, int]]:
    """Returns the parts of a package with their sizes, the largest first; `numpy.libs` counts to `numpy`."""
    sizes: dict[str, int] = {}
    for path in tree.iterdir():
        name = path.name.removesuffix(".libs")
        sizes[name] = sizes.get(name, 0) + (size_bytes(path) if path.is_dir() else path.stat().st_size)
    return sorted(sizes.items(), key=lambda one: one[1], reverse=True)


def _check_console() -> None:
    """A stack that serves the console without its files would answer 503 to everybody. Raises BundlingError."""
    if not (PACKAGE / CONSOLE / "index.html").is_file():
        raise BundlingError(
            "the stack is to serve the console (console_client_id), which is not built in this working copy",
            code="not_built",
            hint="uv run python console/build.py, which needs the npm registry",
        )


def _left_out(*, is_engine: bool, has_console: bool) -> Sequence[str]:
    """Returns what a package of ours does not have beside NOT_DEPLOYED."""
    console = () if has_console and is_engine else (CONSOLE,)
    return (*console, *(OF_WORKERS if is_engine else ()))


def _copy_own(into: Path, left_out: Iterable[str]) -> None:
    """Copies the package, the handlers, and the metadata, which has the version."""
    own = into / "stepwell"
    shutil.copytree(PACKAGE, own, ignore=_not_copied)
    remove(own, (*NOT_DEPLOYED, *left_out))
    shutil.copytree(HANDLERS, own / "functions", ignore=_not_copied)
    metadata = into / f"stepwell-{version('stepwell')}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: stepwell\nVersion: {version('stepwell')}\n")


def _not_copied(folder: str, names: list[str]) -> list[str]:
    return [name for name in names if is_hidden(Path(folder, name)) or name.endswith(".pyc")]


def _inside(project: Project, path: Path) -> str:
    """The path from the project's root; a folder without a project keeps its own name."""
    if not project.document:
        return "workflows"
    if not path.is_relative_to(project.root):
        raise BundlingError(f"{path} is not below the project {project.root}", hint="move it into the project")
    return path.relative_to(project.root).as_posix()


def _mb(size: int) -> str:
    return f"{size / 1_000_000:.1f} MB"
