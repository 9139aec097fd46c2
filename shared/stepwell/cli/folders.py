"""The workflow folder of a command, and the places in the data folder."""

from __future__ import annotations

from pathlib import Path

from stepwell.errors import NotFound, UserError
from stepwell.project import FILE, WORKFLOWS, Project, find_project

DEFINITIONS = (".yaml", ".yml", ".json")
DEFAULT_STACK = "Stepwell"
EMULATED = "aws"  # in the data folder: what `dev --aws` keeps apart from `dev`, so that both can run
EMULATOR = "tmp"  # in there: the emulator's own
DATA, DATABASE = ".stepwell", "stepwell.db"  # as local.wiring has it, whose import takes a while
_WRITTEN = (".yaml", ".yml", ".py")  # files that may be workflows; of JSON a home folder has others


def chosen_folder(given: Path | None) -> Path:
    """Returns the workflow folder: the given one, or that of the project whose root is given, or the default one."""
    if given is None:
        return _not_too_wide(default_folder())
    project = find_project(given) if given.is_dir() else None
    if project and project.root == given.resolve() and _has_its_folder(project):
        return given / project.folder.relative_to(project.root)
    return given


def existing_folder(given: Path | None) -> Path:
    """Returns `chosen_folder(given)`. Raises NotFound if there is no such folder."""
    chosen = chosen_folder(given)
    if not chosen.is_dir():
        is_file = chosen.is_file()
        told = f"{str(chosen)!r} is a file, not a folder" if is_file else f"there is no folder {str(chosen)!r}"
        hint = "name the folder that it is in" if is_file else "create one with: stepwell init DIR"
        raise NotFound(told, code="no_such_folder", hint=hint)
    return chosen


def data_folder(folder: Path) -> Path:
    """Returns where `dev` keeps the runs of a workflow folder: in its project, or else in the current folder.

    So they are found again from any folder of the project. A database that is in the current folder is used.
    """
    project, here = find_project(folder), Path(DATA)
    if project is None or (here / DATABASE).is_file():
        return here
    kept = project.root / DATA
    return kept.relative_to(Path.cwd()) if kept.is_relative_to(Path.cwd()) else kept


def _not_too_wide(folder: Path) -> Path:
    """Refuses the whole disk and the home folder that nobody named: to read all of it takes hours."""
    here = folder.resolve()
    if here not in {Path(here.anchor), Path.home()} or any(any(here.glob(f"*{end}")) for end in _WRITTEN):
        return folder
    hint = "change into the folder of your project, name a folder, or create one: stepwell init DIR"
    raise UserError(f"there are no workflows in {here}", code="no_workflows", hint=hint)


def default_folder() -> Path:
    """Returns the project's workflow folder, or else `workflows/` if it exists, or else the current folder.

    Raises UserError if the project names a folder that is not there: another one is not what it means.
    """
    project = find_project(Path())
    if project and _has_its_folder(project):
        here = Path.cwd()
        return project.folder.relative_to(here) if project.folder.is_relative_to(here) else project.folder
    return Path(WORKFLOWS) if Path(WORKFLOWS).is_dir() else Path()


def _has_its_folder(project: Project) -> bool:
    if project.folder.is_dir():
        return True
    if named := project.document["tool"]["stepwell"].get("workflows"):
        told = f"{project.root / FILE}: workflows: there is no folder {named}"
        raise UserError(told, code="bad_project", hint="create it, or name another one in [tool.stepwell]: workflows")
    return False
