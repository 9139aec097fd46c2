"""The console on the deployed stack, which an emulator runs: `stepwell dev --aws`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.console.kit import Deployed
from tests.contract.live_kit import FLOW, STEPS, seen

pytestmark = pytest.mark.slow

SECONDS = 300.0  # the emulator starts each function when it is first called


@pytest.fixture(scope="module")
def stack(browser: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    place: Path = tmp_path_factory.mktemp("aws")
    (place / "workflows").mkdir()
    (place / "workflows" / "flow.yaml").write_text(FLOW)
    (place / "workflows" / "m.py").write_text(STEPS)
    made = Deployed(place / "workflows", place / "data")
    assert made.line.startswith("ready "), made.errors
    yield made
    made.end()


def test_a_run_is_started_approved_and_watched_to_its_end(stack: Deployed, page: Page) -> None:
    """Its feed is API Gateway's, and tells of the end."""
    for path in ("/workflows", "/stats", "/stream"):
        stack.call("GET", path)  # each starts a function, one after the other
    frames: list[str] = []
    page.set_default_timeout(SECONDS * 1000)
    page.on("websocket", lambda socket: socket.on("framereceived", lambda frame: frames.append(str(frame))))
    page.goto(f"{stack.url}/#/runs?workflow=flow")
    page.get_by_role("button", name="Start a run").click()
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page.locator(".title .status")).to_have_text("waiting", timeout=SECONDS * 1000)
    page.get_by_role("button", name="Approve").click()
    page.locator("dialog button[type=submit]").click()
    page.keyboard.press("Escape")
    expect(page.locator(".title .status")).to_have_text("completed", timeout=SECONDS * 1000)
    told = ("step.completed", "greet")
    for _ in range(int(SECONDS)):
        if told in seen(frames):
            break
        page.wait_for_timeout(1000)
    assert told in seen(frames)
