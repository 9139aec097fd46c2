"""The workflow folder of a command, and the places in the data folder."""

from __future__ import annotations

from pathlib import Path

from stepwell.errors import NotFound
from stepwell.project import WORKFLOWS, find_project

DEFINITIONS = (".yaml", ".yml", ".json")
DEFAULT_STACK = "Stepwell"
EMULATED = "aws"  # in the data folder: what `dev --aws` keeps apart from `dev`, so that both can run
EMULATOR = "tmp"  # in there: the emulator's own


def chosen_folder(given: Path | None) -> Path:
    """Returns the workflow folder: the given one, or that of the project whose root is given, or the default one."""
    if given is None:
        return default_folder()
    project = find_project(given) if given.is_dir() else None
    if project and project.root == given.resolve() and project.folder.is_dir():
        return given / project.folder.relative_to(project.root)
    return given


def existing_folder(given: Path | None) -> Path:
    """Returns `chosen_folder(given)`. Raises NotFound if there is no such folder."""
    chosen = chosen_folder(given)
    if not chosen.is_dir():
        hint = "create one with: stepwell init DIR"
        raise NotFound(f"there is no folder {str(chosen)!r}", code="no_such_folder", hint=hint)
    return chosen


def default_folder() -> Path:
    """Returns the project's workflow folder, or else `workflows/` if it exists, or else the current folder."""
    project = find_project(Path())
    if project and project.folder.is_dir():
        here = Path.cwd()
        return project.folder.relative_to(here) if project.folder.is_relative_to(here) else project.folder
    return Path(WORKFLOWS) if Path(WORKFLOWS).is_dir() else Path()
