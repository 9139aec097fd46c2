"""Workflow folders and new projects: the file access of `dev`, `check` and `init`."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from string import Template

from stepwell.errors import UserError
from stepwell.project import find_project

DEFINITIONS = (".yaml", ".yml", ".json")
TEMPLATES = {  # file of the new project: its template
    "README.md": "README.md.tmpl",
    ".gitignore": "gitignore.tmpl",
    "workflows/order-review.yaml": "order-review.yaml.tmpl",
    "workflows/steps.py": "steps.py.tmpl",
    "tests/test_order_review.py": "test_order_review.py.tmpl",
}


def default_folder() -> Path:
    """Returns the project's workflow folder, or else `workflows/` if it exists, or else the current folder."""
    project = find_project(Path())
    if project and project.folder.is_dir():
        here = Path.cwd()
        return project.folder.relative_to(here) if project.folder.is_relative_to(here) else project.folder
    return Path("workflows") if Path("workflows").is_dir() else Path()


def write_project(folder: Path) -> list[Path]:
    """Creates a small working project. Raises UserError if the folder is not empty."""
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{str(folder)!r} is a file", code="not_a_folder", hint="give a new or empty folder")
    if folder.is_dir() and any(folder.iterdir()):
        raise UserError(f"{str(folder)!r} is not empty", code="folder_not_empty", hint="give a new or empty folder")
    templates = files("stepwell.cli").joinpath("templates")
    written: list[Path] = []
    for name, template in TEMPLATES.items():
        path = folder / name
        text = templates.joinpath(template).read_text(encoding="utf-8")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(Template(text).substitute(project=folder.resolve().name), encoding="utf-8")
        written.append(path)
    return written
