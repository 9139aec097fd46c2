"""A folder with a module of durable functions, in memory."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stepwell.testing.kit import Stepwell

Flows = Callable[..., Stepwell]


@pytest.fixture
def flows(tmp_path: Path) -> Iterator[Flows]:
    """`flows("@workflow\\nasync def …")`: a Stepwell over a folder whose module `flow` is this text."""
    before = set(sys.modules)

    made: list[Stepwell] = []

    def make(text: str, **options: Any) -> Stepwell:
        (tmp_path / "flow.py").write_text(text)
        made.append(Stepwell(tmp_path, **options))
        return made[-1]

    yield make
    for kit in made:
        kit.close()
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]
