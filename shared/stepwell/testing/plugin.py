"""The pytest plugin with the fixture `stepwell`."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from stepwell.project import find_project


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("stepwell_folder", "the workflow folder under test, from the project's root", default="")


@pytest.fixture
def stepwell(request: pytest.FixtureRequest) -> Iterator[object]:
    """A Stepwell in memory over the workflow folder of the ini option, of the test, or `workflows/` above it."""
    from stepwell.errors import DefinitionError  # noqa: PLC0415  as below
    from stepwell.testing.frames import UsersFrames  # noqa: PLC0415  as below
    from stepwell.testing.kit import Stepwell  # noqa: PLC0415  a test run that does not ask for it does not pay for it

    named = str(request.config.getini("stepwell_folder"))
    try:
        kit = Stepwell(workflow_folder(request.path, request.config.rootpath, named))
    except DefinitionError as error:
        pytest.fail(str(error), pytrace=False)
    frames, worker = UsersFrames(), logging.getLogger("stepwell.worker")
    worker.addFilter(frames)
    yield kit
    worker.removeFilter(frames)
    kit.close()


def _has_workflows(folder: Path) -> bool:
    from stepwell.runtime.folder.loading import is_definition  # noqa: PLC0415  as above

    if any(path.is_file() and is_definition(path) for path in folder.glob("*")):
        return True
    modules = (path for path in folder.glob("*.py") if not path.stem.startswith(("test_", "conftest")))
    return any(b"@workflow" in path.read_bytes() for path in modules)


def workflow_folder(test: Path, root: Path, named: str) -> Path:
    """Finds a test's workflow folder: by its name, above the test, or that of the project."""
    if named:
        return root / named
    project = find_project(test.parent)
    for folder in (test.parent, *test.parent.parents):
        if project and folder == project.root:
            return project.folder
        for candidate in (folder / "workflows", folder):  # as the commands choose
            if _has_workflows(candidate):
                return candidate
        if folder == root:
            break
    return test.parent
