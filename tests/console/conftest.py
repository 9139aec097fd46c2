"""One dev server with runs of every kind, and one Chromium, for all tests of a file."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Page

from stepwell.api.console import BUILT, is_built
from tests.console.chromium import Chromium, browsing, chromium
from tests.console.kit import DEMO, furnish
from tests.local.kit import Dev


@dataclass(frozen=True, slots=True)
class Served:
    """A server, and the ids of its runs by what they show."""

    dev: Dev
    runs: Mapping[str, str]


@pytest.fixture(scope="module")  # while it is there, an event loop runs in this thread, and no other may
def browser() -> Iterator[Chromium]:
    if chromium() is None:
        pytest.skip("no Chromium: install the package `chromium-headless-shell` to test the console")
    if not is_built():
        pytest.skip("the console is not built: uv run python console/build.py")
    with browsing() as found:
        yield found


@pytest.fixture(scope="module")
def served(
    browser: Chromium, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    """The wide fork is as wide as the module says (LETTERS)."""
    dev = Dev(DEMO, tmp_path_factory.mktemp("console") / "data")
    try:
        yield Served(dev, furnish(dev, getattr(request.module, "LETTERS", 20)))
    finally:
        dev.end(signal.SIGKILL)


@pytest.fixture
def page(browser: Chromium) -> Iterator[Page]:
    """A page whose script may fail at nothing, and which may ask nobody but its server."""
    found = browser.open(viewport={"width": 1280, "height": 900})
    faults: list[str] = []
    found.on("pageerror", lambda error: faults.append(str(error)))
    found.on("console", lambda said: faults.append(said.text) if "Content Security Policy" in said.text else None)
    found.on("request", lambda asked: None if asked.url.startswith("http://127.0.0.1:") else faults.append(asked.url))
    yield found
    found.unroute_all(behavior="ignoreErrors")  # a page that reads itself again may be amid that
    browser.close(found)
    assert not faults


@pytest.fixture
def assets() -> Path:
    if not is_built():
        pytest.skip("the console is not built: uv run python console/build.py")
    return BUILT
