"""Workflow folders whose modules are gone from the process when the test is over."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.runtime.kit import Folder


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Callable[..., Folder]]:
    """Makes folders: `folder(shop="def f(): …")`."""
    before = set(sys.modules)
    made: list[Folder] = []

    def make(name: str = "flows", **modules: str) -> Folder:
        made.append(Folder(tmp_path / name, **modules))
        return made[-1]

    yield make
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]
