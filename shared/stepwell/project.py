"""A project of one's own: the folder whose pyproject.toml has `[tool.stepwell]`.

    [tool.stepwell]
    workflows = "workflows"          # the workflow folder
    packages = ["shop"]              # what its steps import, packed beside it; default: the packages of the root
    python = "3.13"                  # of the Lambda functions; default: the Python that deploys
    pools.default = {memory_mb = 512}

Other keys are properties of the engine, as in cdk.json. Without such a folder, a workflow folder stands alone.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from stepwell.errors import UserError
from stepwell.values import dataclass

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
WORKFLOWS = "workflows"
REQUIREMENTS = ("requirements.lock", "requirements.txt")
LOCKS = ("uv.lock", "poetry.lock")
FILE = "pyproject.toml"
_KEYS = 'write such as workflows = "workflows", packages = ["shop"] and python = "3.13" in [tool.stepwell]'
OF_PROJECT = ("workflows", "packages")  # keys that are not properties of an engine
_NOT_PACKED = ("tests", "test")
_NAME = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)")
_PATH = re.compile(r"\s*[\w.-]+/")  # `libs/till`, which is no name


def this_python() -> str:
    """Returns the version of this Python, as Lambda names it: `3.13`."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


@dataclass(frozen=True, slots=True)
class Project:
    """A workflow folder and its surroundings. `packages` are relative to the root."""

    root: Path
    folder: Path
    packages: tuple[Path, ...] = ()
    properties: Mapping[str, Any] = field(default_factory=dict)
    document: Mapping[str, Any] = field(default_factory=dict)  # pyproject.toml

    @property
    def paths(self) -> tuple[Path, ...]:
        """The folders that modules are imported from: the workflow folder, the root, and those of the packages."""
        return tuple(dict.fromkeys((self.folder, *self._roots)))

    @property
    def _roots(self) -> Iterator[Path]:
        if self.document:
            yield self.root
        yield from ((self.root / package).parent for package in self.packages)

    @property
    def sources(self) -> tuple[Path, ...]:
        """The folders whose changes a dev server follows."""
        return (self.folder, *(self.root / package for package in self.packages))

    @property
    def python(self) -> str:
        """The version of Python that the project is for."""
        return str(self.properties.get("python") or this_python())

    @property
    def requirements_files(self) -> tuple[Path, ...]:
        """The project's requirements files: the first of the root's, and the workflow folder's own."""
        found = [next((file for name in REQUIREMENTS if (file := place / name).is_file()), None)
                 for place in dict.fromkeys((self.root, self.folder))]  # fmt: skip
        return tuple(file for file in found if file)

    def dependencies(self) -> tuple[str, ...]:
        """Returns what the project needs: the lines of its requirements files, else pyproject's dependencies."""
        if files := self.requirements_files:
            lines = (line for file in files for line in read_requirements(file).splitlines())
            return tuple(line.strip() for line in lines if _NAME.match(line) and not _PATH.match(line))
        listed = self.document.get("project", {}).get("dependencies", [])
        poetry = self.document.get("tool", {}).get("poetry", {}).get("dependencies", {})
        return (*listed, *(name for name in poetry if name != "python"))

    def not_installed(self) -> tuple[str, ...]:
        """Returns the names of dependencies that this Python lacks. Those with a marker may be for another one."""
        return tuple(name for line in self.dependencies() if ";" not in line and not _has(name := name_of(line)))


def unread_beside(project: Project) -> tuple[str, ...]:
    """Returns the files beside a folder without a project that would say what it needs, and that nobody reads."""
    names = () if project.document else (*LOCKS, *REQUIREMENTS)
    return tuple(name for name in names if (project.folder.parent / name).is_file())


def name_of(requirement: str) -> str:
    """Returns the normalised name of a requirement: `Foo_bar[x]>=1` is `foo-bar`."""
    found = _NAME.match(requirement)
    return re.sub(r"[-_.]+", "-", found[1]).lower() if found else ""


def find_project(start: Path) -> Project | None:
    """Finds the project at or above a folder. Raises UserError `bad_project` if its pyproject.toml is wrong."""
    here = start.resolve()
    for root in (here, *here.parents):
        if (document := read_document(root / FILE)) and "stepwell" in document.get("tool", {}):
            return _project(root, document)
    return None


def project_of(folder: Path) -> Project:
    """Returns the project that a workflow folder belongs to, or the folder alone."""
    found = find_project(folder)
    here = folder.resolve()
    if found is None:
        return Project(here, here)
    return Project(found.root, here, found.packages, found.properties, found.document)


def _project(root: Path, document: Mapping[str, Any]) -> Project:
    table = document["tool"]["stepwell"]
    if not isinstance(table, dict):
        raise _bad(root, "[tool.stepwell] is not a table")
    folder = root / _text(root, table, "workflows", WORKFLOWS)
    packages = table.get("packages")
    if packages is None:
        found: Sequence[str] = root_packages(root, folder)
    elif isinstance(packages, list) and all(isinstance(one, str) for one in packages):
        found = packages
    else:
        raise _bad(root, "packages is not a list of folders")
    missing = [one for one in found if not (root / one).exists()]
    if missing:
        raise _bad(root, f"packages: there is no {missing[0]}")
    properties = {key: value for key, value in table.items() if key not in OF_PROJECT}
    if _text(root, table, "python", this_python()) not in PYTHONS:
        raise _bad(root, f"python: {table['python']!r} is not one of {', '.join(PYTHONS)}")
    return Project(root, folder, tuple(Path(one) for one in found), properties, document)


def root_packages(root: Path, folder: Path) -> list[str]:
    """Returns the Python packages of the root and of its `src`, but for tests and the workflow folder."""
    places = ("*/__init__.py",) if (root / "src" / "__init__.py").exists() else ("*/__init__.py", "src/*/__init__.py")
    found = (path.parent for place in places for path in sorted(root.glob(place)))
    return [path.relative_to(root).as_posix() for path in found if path != folder and path.name not in _NOT_PACKED]


def _text(root: Path, table: Mapping[str, Any], key: str, default: str) -> str:
    value = table.get(key, default)
    if not isinstance(value, str):
        raise _bad(root, f"{key}: {value!r} is not text")
    return value


def read_document(file: Path) -> Mapping[str, Any]:
    """Reads a pyproject.toml; empty if there is none. Raises UserError `bad_project`."""
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError) as error:  # a TOMLDecodeError is a ValueError
        raise UserError(f"{file}: {error}", code="bad_project", hint="pyproject.toml must be TOML in UTF-8") from error


def read_requirements(file: Path) -> str:
    """Reads a requirements file, with or without the mark that Windows writes. Raises UserError `bad_project`."""
    try:
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:  # PowerShell's `>` writes UTF-16
        hint = "save it as UTF-8; in PowerShell: pip freeze | Out-File -Encoding utf8 FILE"
        raise UserError(f"{file} is not UTF-8: {error.reason}", code="bad_project", hint=hint) from error


def _bad(root: Path, message: str) -> UserError:
    return UserError(f"{root / FILE}: {message}", code="bad_project", hint=_KEYS)


def _has(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True
