"""The example `documents`, its own tests on every other backend: the same, but a batch of 200."""

from __future__ import annotations

from pathlib import Path

import pytest

import examples.documents.test_documents as example
from examples.documents.test_documents import *  # noqa: F403 - its tests and its fixtures

FOLDER = Path(example.__file__).parent


@pytest.fixture(autouse=True)
def a_smaller_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand pass too, but take the emulated AWS 21 s of a processor (SQLite: 4 s)."""
    monkeypatch.setattr(example, "DOCUMENTS", 200)
