"""The workflow folder of a command that names none."""

from __future__ import annotations

from pathlib import Path

from stepwell.project import WORKFLOWS, find_project

DEFINITIONS = (".yaml", ".yml", ".json")


def default_folder() -> Path:
    """Returns the project's workflow folder, or else `workflows/` if it exists, or else the current folder."""
    project = find_project(Path())
    if project and project.folder.is_dir():
        here = Path.cwd()
        return project.folder.relative_to(here) if project.folder.is_relative_to(here) else project.folder
    return Path(WORKFLOWS) if Path(WORKFLOWS).is_dir() else Path()
