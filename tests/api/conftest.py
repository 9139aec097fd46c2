"""One world for each test."""

from __future__ import annotations

import pytest

from tests.api.kit import World


@pytest.fixture
def world() -> World:
    return World()
