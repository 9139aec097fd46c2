"""New projects: `stepwell init` writes one from a template, or adds what is missing to an existing repository."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
import tomllib
import unicodedata
from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import cache
from importlib.metadata import version
from importlib.resources import as_file, files
from keyword import iskeyword
from pathlib import Path
from string import Template as Text

from stepwell.errors import Conflict, UserError
from stepwell.extras import missing
from stepwell.os_errors import explained, misplaced
from stepwell.project import FILE, WORKFLOWS, find_project, name_of, root_packages, this_python
from stepwell.values import dataclass

SCHEMA = "workflows/.schema.json"
ENDING = ".tmpl"
IGNORED = ".gitignore"  # without these lines, data and packages would be committed
CI = ".github"


class Template(StrEnum):
    """The templates of `init`."""

    ORDER = "order"
    AGENT = "agent"
    SAGA = "saga"
    WEBHOOK = "webhook"


# How to start the first run of each template: workflow and input.
FIRST_RUN: Mapping[Template, tuple[str, Mapping[str, object]]] = {
    Template.ORDER: ("order-review", {"order_id": "A-1", "amount": 120}),
    Template.AGENT: ("assistant", {"task": "My order A-1 is broken."}),
    Template.SAGA: ("checkout", {"order_id": "A-1", "amount": 80}),
    Template.WEBHOOK: ("watch-repository", {"repository": "acme/fleet"}),
}


@dataclass(frozen=True, slots=True)
class Written:
    """The files that were written, and those of the template that were there and stay as they are."""

    files: tuple[Path, ...]
    kept: tuple[Path, ...]
    run: str


def write_project(folder: Path, template: Template, *, here: bool = False) -> Written:
    """Writes a project that runs. `here` allows a folder with files, none of which is overwritten.

    Raises UserError `not_a_folder`, `folder_not_empty`, `bad_project`; Conflict `already_a_project`.
    """
    _check(folder, here)
    values = _values(folder, template)
    texts = dict(_texts(template, values))
    texts[Path(SCHEMA)] = _schema()
    if here:
        texts = {name: text for name, text in texts.items() if name.parts[0] != CI}  # a repository has its own
    joined = {Path(FILE), Path(IGNORED)}
    if (pyproject := folder / FILE).is_file():
        texts[Path(FILE)] = _with_table(pyproject, texts[Path(FILE)], values)
    if (ignored := folder / IGNORED).is_file():
        texts[Path(IGNORED)] = _with_lines(_text_of(ignored), texts[Path(IGNORED)])
    written, kept = [], []
    for name, text in texts.items():
        path = folder / name
        if path.exists() and name not in joined:
            kept.append(path)
            continue
        _write(path, text)
        written.append(path)
    return Written(tuple(written), tuple(kept), values["run"])


def _write(path: Path, text: str) -> None:
    """Writes a file of the project. An error of the system names it, also where the disk is full."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        known = explained(error, path) or misplaced(error)
        if known is None:
            raise
        raise known from error


def needs_stepwell(folder: Path) -> bool:
    """Whether Stepwell is among the dependencies of a project."""
    project = find_project(folder)
    return project is not None and any(name_of(line) == "stepwell" for line in project.dependencies())


def adding(folder: Path) -> str:
    """Returns how a repository adds a dependency."""
    if (folder / "uv.lock").is_file():
        return "uv add stepwell"
    return "poetry add stepwell" if (folder / "poetry.lock").is_file() else "pip install stepwell, and list it"


def installing() -> list[str]:
    """Returns the command that installs what `stepwell dev` and the project's tests need; none if it is there."""
    is_there = not missing("dev") and importlib.util.find_spec("pytest") is not None
    return [] if is_there else ['pip install "stepwell[dev]"']


def _check(folder: Path, here: bool) -> None:
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{str(folder)!r} is a file", code="not_a_folder", hint="give a new or empty folder")
    if not here and folder.is_dir() and any(folder.iterdir()):
        hint = "give a new or empty folder, or add a project to this one: stepwell init --here"
        raise UserError(f"{str(folder)!r} is not empty", code="folder_not_empty", hint=hint)


def _values(folder: Path, template: Template) -> dict[str, str]:
    project = folder.resolve().name
    plain = unicodedata.normalize("NFKD", project).encode("ascii", "ignore").decode().lower()  # Über: uber, not ber
    package = _package(folder, plain)
    workflow, given = FIRST_RUN[template]
    return {
        "project": project,
        "name": re.sub(r"[^a-z0-9]+", "-", plain).strip("-") or "workflows",
        "package": package,
        "packages": ", ".join(json.dumps(one) for one in (package, *root_packages(folder, folder / WORKFLOWS))),
        "python": this_python(),
        "version": version("stepwell"),
        "run": f"stepwell run {workflow} -i '{json.dumps(given)}' --watch",
    }


def _package(folder: Path, project: str) -> str:
    """Returns a name for the package that hides no module: `my-shop` is `my_shop`, `test` is `test_app`."""
    name = re.sub(r"\W+", "_", project, flags=re.ASCII).strip("_") or "app"
    name = f"app_{name}" if name[0].isdigit() else name
    taken = name in sys.stdlib_module_names or name in {"workflows", "tests", "test", "stepwell"} or iskeyword(name)
    if not taken and not (folder / name).exists():
        taken = importlib.util.find_spec(name) is not None
    return f"{name}_app" if taken else name


def _texts(template: Template, values: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    """Yields the files of the template with their texts."""
    with as_file(files("stepwell.cli").joinpath("templates")) as root:
        table = Text((root / "common" / f"table{ENDING}").read_text(encoding="utf-8")).substitute(values)
        for part in ("common", template.value):
            for path in sorted((root / part).rglob(f"*{ENDING}")):
                name = path.relative_to(root / part).as_posix().removesuffix(ENDING)
                if name != "table":
                    place = name.replace("dot-", ".").replace("package/", f"{values['package']}/", 1)
                    text = path.read_text(encoding="utf-8")
                    yield Path(place), Text(text).substitute({**values, "table": table})


def _with_table(pyproject: Path, made: str, values: Mapping[str, str]) -> str:
    """Returns the repository's own pyproject.toml with the table of Stepwell at its end."""
    text = _text_of(pyproject)
    try:
        document = tomllib.loads(text)
    except ValueError as error:
        raise UserError(f"{pyproject}: {error}", code="bad_project", hint="mend it first") from error
    if "stepwell" in document.get("tool", {}):
        raise Conflict(f"{pyproject} has [tool.stepwell] already", code="already_a_project", hint="run: stepwell dev")
    table = made[made.index("[tool.stepwell]") : made.index("[tool.pytest")]
    return f"{text.rstrip()}\n\n{table.rstrip()}\n"


def _text_of(file: Path) -> str:
    """Returns the text of a file of the repository's own. Raises UserError `bad_project`."""
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{file} is not UTF-8: {error.reason}", code="bad_project", hint="save it as UTF-8") from error


def _with_lines(text: str, wanted: str) -> str:
    """Returns the text with the wanted lines that it lacks at its end."""
    lines = text.splitlines()
    missing = [line for line in wanted.splitlines() if line not in lines and line.rstrip("/") not in lines]
    return "\n".join((*lines, *missing, ""))


@cache
def _schema() -> str:
    from stepwell.definition.editor_schema import json_schema  # noqa: PLC0415 - pydantic: 100 ms

    return json.dumps(json_schema(), indent=2) + "\n"  # as `stepwell schema` prints it
