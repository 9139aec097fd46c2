"""The ports under test: each test runs once with every adapter that kit.py lists."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stepwell.runtime.ports import Blobs
from tests.contract.kit import BLOBS, LOCAL_STORES, QUEUES, STORES, Adapter, LocalQueue, LocalStore, Store


def _name(adapter: Adapter[Any]) -> str:
    return adapter.name


def _able(request: pytest.FixtureRequest) -> Adapter[Any]:
    """The adapter, unless the test needs what the adapter lacks."""
    adapter: Adapter[Any] = request.param
    if request.node.get_closest_marker("threads") and not adapter.threads:
        pytest.skip(f"{adapter.name} is for one thread")
    for marker in request.node.iter_markers("needs"):
        if adapter.lacks.intersection(marker.args):
            pytest.skip(f"{adapter.name} lacks {', '.join(marker.args)}")
    return adapter


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "threads: calls the adapter from many threads at once")
    config.addinivalue_line("markers", "needs(capability): skipped for adapters that lack it, see kit.Adapter")


# Each half of it is tested each time: boto3, and a bad day.
_BOTH = "dynamodb by boto3 on a bad day"
_STORES = [pytest.param(one, marks=pytest.mark.slow) if one.name == _BOTH else one for one in STORES]


@pytest.fixture(params=_STORES, ids=_name)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    with _able(request).open(tmp_path) as opened:
        yield opened


@pytest.fixture(params=LOCAL_STORES, ids=_name)
def local_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LocalStore]:
    with _able(request).open(tmp_path) as opened:
        yield opened


@pytest.fixture(params=QUEUES, ids=_name)
def queue(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LocalQueue]:
    with _able(request).open(tmp_path) as opened:
        yield opened


@pytest.fixture(params=BLOBS, ids=_name)
def blobs(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Blobs]:
    with _able(request).open(tmp_path) as opened:
        yield opened
