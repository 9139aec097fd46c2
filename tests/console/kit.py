"""A dev server with runs of every kind, and what a person does on its pages."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, expect

from tests.contract.live_kit import seen
from tests.local.kit import DEADLINE_SECONDS, Dev, until

DEMO = Path(__file__).parent / "demo"
HOSTILE = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"

expect.set_options(timeout=DEADLINE_SECONDS * 1000)


def take_to_its_end(page: Page, seconds: float) -> None:
    """Starts a run in the open dialog, approves it, and sees it completed. `seconds`: for each change to be shown."""
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page.locator(".title .status")).to_have_text("waiting", timeout=seconds * 1000)
    page.get_by_role("button", name="Approve", exact=True).click()
    page.locator("dialog button[type=submit]").click()
    expect(page.locator(".told.is-done")).to_be_visible(timeout=seconds * 1000)
    page.keyboard.press("Escape")
    expect(page.locator(".title .status")).to_have_text("completed", timeout=seconds * 1000)


def open_anew(page: Page, url: str) -> None:
    """Loads it also where only its fragment differs from the page's address, which by itself loads nothing."""
    page.goto("about:blank")
    page.goto(url)


def look_back(page: Page) -> None:
    """Opens the slider by a key: what the page reads late moves the button away from under a mouse."""
    page.get_by_role("button", name="look back").press("Enter")


def frames_of(page: Page) -> list[str]:
    """What the page's WebSockets receive from here on."""
    frames: list[str] = []
    page.on("websocket", lambda socket: socket.on("framereceived", lambda frame: frames.append(str(frame))))
    return frames


def is_fed(page: Page, frames: list[str], told: tuple[str, str] | None = None, seconds: int = 60) -> bool:
    """Tells whether the page's live feed answers it, or brings this entry, by its type and step."""
    for _ in range(seconds):
        if frames and (told is None or told in seen(frames)):
            return True
        page.wait_for_timeout(1000)
    return False


class Deployed(Dev):
    """The deployed stack, which an emulator runs: `stepwell dev --aws`. A function starts when it is first called."""

    def __init__(self, folder: Path, data: Path) -> None:
        self.data, self._errors = data, data.parent / "log"
        code = "from stepwell.cli.main import main; main()"
        command = [sys.executable, "-c", code, "dev", "--aws", str(folder), "--port", "0", "--data", str(data)]
        with self._errors.open("w") as log:
            self.process = subprocess.Popen(  # noqa: S603 - this Python, these paths
                command, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, stderr=log, text=True
            )
        self.line = self.process.stdout.readline().strip() if self.process.stdout else ""
        self.url = self.line.removeprefix("ready ")


def start(dev: Dev, workflow: str, given: dict[str, Any], **more: Any) -> str:
    status, run = dev.call("POST", f"/workflows/{workflow}/runs", {"input": given, **more})
    assert status == 201, run
    return str(run["run_id"])


def reaches(dev: Dev, run_id: str, status: str) -> str:
    until(lambda: dev.status(run_id) == status, f"{run_id} is {status}")
    return run_id


def furnish(dev: Dev, letters: int = 1000) -> dict[str, str]:
    """Starts a run for each thing that a page shows. Returns their ids. `letters`: branches of the wide fork."""
    order = {"order_id": "A-1001", "amount": 420}
    first = start(dev, "order", order, tags={"team": "shop", "region": "eu"})
    runs = {
        "waiting": reaches(dev, first, "waiting"),  # due first: the inbox opens with it
        "hostile": start(dev, "order", {"order_id": HOSTILE, "amount": 1, "note": HOSTILE}, tags={"note": HOSTILE}),
        "done": start(dev, "order", {"order_id": "A-1002", "amount": 12}),
        "failed": start(dev, "order", {"order_id": "A-1003", "amount": 800}),
        "cancelled": start(dev, "order", {"order_id": "A-1004", "amount": 30}),
        "fork": start(dev, "survey", {"letters": letters}),
        "small": start(dev, "survey", {"letters": 3}),
        "launch": start(dev, "launch", {}, tags={"team": "ops"}),
        "trip": start(dev, "trip", {"traveller": {"name": "Ana"}, "class": "economy", "nights": 25}),
        "function": start(dev, "haggle", {"item": "lamp"}),
        "idle": start(dev, "launch", {}, create_only=True),
    }
    for name in ("done", "failed", "cancelled"):
        reaches(dev, runs[name], "waiting")
    dev.call("POST", f"/runs/{runs['cancelled']}/cancel", {"reason": "the customer called", "by": "ana"})
    for name, order_id in (("done", "A-1002"), ("failed", "A-1003")):
        dev.call("POST", f"/runs/{runs[name]}/approve", {"by": "ana", "data": {"ok": True}})
        dev.call("POST", "/events", {"name": "payment.received", "key": order_id, "payload": {"paid": True}})
    for name, status in (("done", "completed"), ("failed", "failed"), ("fork", "completed"), ("small", "waiting"),
                         ("trip", "compensated"), ("function", "waiting")):  # fmt: skip
        reaches(dev, runs[name], status)
    return runs
