"""The console on the deployed stack, which an emulator runs: `stepwell dev --aws`."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.contract.live_kit import FLOW, STEPS, seen

pytestmark = pytest.mark.slow

SECONDS = 300.0  # the emulator starts each function when it is first called


@pytest.fixture(scope="module")
def url(browser: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    place: Path = tmp_path_factory.mktemp("aws")
    (place / "workflows").mkdir()
    (place / "workflows" / "flow.yaml").write_text(FLOW)
    (place / "workflows" / "m.py").write_text(STEPS)
    stepwell = "from stepwell.cli.main import main; main()"
    command = [sys.executable, "-c", stepwell, "dev", "--aws", str(place / "workflows"), "--port", "0"]
    with (
        (place / "log").open("w") as log,
        subprocess.Popen(  # noqa: S603 - this Python, these paths
            [*command, "--data", str(place / "data")],
            cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, stderr=log, text=True,
        ) as process,
    ):  # fmt: skip
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("ready "), (place / "log").read_text()
        yield line.split()[1]
        process.terminate()
        try:
            process.wait(SECONDS)
        finally:
            process.kill()


def call(url: str, path: str, body: Any = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url + path, data, {"content-type": "application/json"})  # noqa: S310 - our own server
    with urllib.request.urlopen(request, timeout=SECONDS) as reply:  # noqa: S310
        return json.loads(reply.read())


def test_a_run_is_started_approved_and_watched_to_its_end(url: str, page: Page) -> None:
    """Its feed is API Gateway's, and tells of the end."""
    for path in ("/workflows", "/stats", "/stream"):
        call(url, path)  # each starts a function, one after the other
    frames: list[str] = []
    page.set_default_timeout(SECONDS * 1000)
    page.on("websocket", lambda socket: socket.on("framereceived", lambda frame: frames.append(str(frame))))
    page.goto(f"{url}/#/runs?workflow=flow")
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
