"""A fixture for what must hold whatever calls AWS."""

from __future__ import annotations

import pytest

from tests.contract import emulated


@pytest.fixture(params=["thin", "boto3"])
def client(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Runs a test once with the thin client and once with boto3."""
    name: str = request.param
    monkeypatch.setattr(emulated, "CLIENT", name)
    return name
