"""The pytest plugin: a fixture `stepwell` over the workflows that the test is about."""

from __future__ import annotations

from pathlib import Path

import pytest

_ENDINGS = ("*.yaml", "*.yml", "*.json")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("stepwell_folder", "the workflow folder under test, from the project's root", default="")


@pytest.fixture
def stepwell(request: pytest.FixtureRequest) -> object:
    """A Stepwell in memory over a workflow folder: the ini option's, the test's own, or `workflows/` above it."""
    from stepwell.testing.kit import Stepwell  # noqa: PLC0415  a test run that does not ask for it does not pay for it

    named = str(request.config.getini("stepwell_folder"))
    return Stepwell(workflow_folder(request.path, request.config.rootpath, named))


def workflow_folder(test: Path, root: Path, named: str) -> Path:
    """Where a test's workflows are."""
    if named:
        return root / named
    for folder in (test.parent, *test.parent.parents):
        for candidate in (folder, folder / "workflows"):
            if any(path for ending in _ENDINGS for path in candidate.glob(ending)):
                return candidate
        if folder == root:
            break
    return test.parent
