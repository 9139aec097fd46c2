"""A folder with a module of durable functions, in memory."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stepwell.testing.kit import Stepwell


class Flows:
    """A folder whose module `flow` a test writes."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.made = folder, list[Stepwell]()

    def __call__(self, text: str, **options: Any) -> Stepwell:
        """A Stepwell over the folder with this module."""
        self.write(text)
        self.made.append(Stepwell(self.folder, **options))
        return self.made[-1]

    def write(self, text: str, name: str = "flow.py") -> None:
        (self.folder / name).write_text(text)


@pytest.fixture
def flows(tmp_path: Path) -> Iterator[Flows]:
    """`flows("@workflow\nasync def …")`: a Stepwell over a folder whose module `flow` is this text."""
    before = set(sys.modules)
    flows = Flows(tmp_path)
    yield flows
    for kit in flows.made:
        kit.close()
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]
