"""A workflow folder, and dev servers that are ended with their test."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.local.kit import Dev

ORDER = """
workflow: order
timeline:
  - {name: charge, run: python:shop.charge, timeout: 1m}
  - {name: approve, wait: {for: approval}}
  - {name: slow, run: python:shop.slow, timeout: 1m}
  - {name: ship, run: python:shop.ship, timeout: 1m}
"""
SHOP = """
import pathlib, time
HERE = pathlib.Path(__file__).parent

def charge():
    return {"charged": 1}

def slow():
    with (HERE / "tries").open("a") as tries:
        tries.write("x")
    while not (HERE / "go").exists():
        time.sleep(0.02)
    return "done"

def ship():
    return "v1"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "workflows"
    made.mkdir()
    (made / "order.yaml").write_text(ORDER)
    (made / "shop.py").write_text(SHOP)
    return made


@pytest.fixture
def dev(folder: Path, tmp_path: Path) -> Iterator[Callable[[], Dev]]:
    servers: list[Dev] = []

    def start() -> Dev:
        server = Dev(folder, tmp_path / "data")
        assert server.line.startswith("ready http://127.0.0.1:"), server.errors
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.end(signal.SIGKILL)
