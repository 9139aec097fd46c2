"""Measures the figures of docs/console.md: bytes, first paint, large runs, 100,000 runs, requests a minute.

uv run python -m tests.console.figures          # of `stepwell dev`
uv run python -m tests.console.figures --aws    # of `stepwell dev --aws`
uv run python -m tests.console.figures --tenth  # with runs of 1,000, for an emulator on a machine with other work
"""

from __future__ import annotations

import gzip
import signal
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Page

from stepwell.api.console import BUILT
from stepwell.local.wiring import DATABASE_FILE
from tests.console.chromium import Chromium, browsing
from tests.console.kit import Deployed, start
from tests.console.test_large import STEPS, WIDE
from tests.local.kit import Dev

RUNS = 100_000
WIDTH = 1000 if "--tenth" in sys.argv else 10_000
STEPS_DONE = WIDTH // 2  # two history entries each
MOST_SECONDS = 1800
OK = 200
SETTLED_MS = 180_000  # the sweeper has noted the run once, which the page reads
LOOKED_MINUTES = 2
IDLE = "workflow: idle\nnodes:\n  check: {wait: {for: approval}}\n"
PAINTED = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"


def main() -> None:
    sent = sum(len(gzip.compress((BUILT / name).read_bytes(), 9)) for name in ("console.js", "console.css"))
    print(f"script and style, compressed: {sent / 1000:.0f} kB")
    with tempfile.TemporaryDirectory() as folder, browsing() as browser:
        place = Path(folder)
        (place / "workflows").mkdir()
        for name, text in {"steps.py": STEPS, "wide.yaml": WIDE, "idle.yaml": IDLE}.items():
            (place / "workflows" / name).write_text(text)
        (on_aws if "--aws" in sys.argv[1:] else on_dev)(place, browser)


def on_aws(place: Path, browser: Chromium) -> None:
    """The emulator is one process for all of AWS: what it takes to answer is its own time, not that of AWS."""
    stack = Deployed(place / "workflows", place / "data")
    try:
        for path in ("/workflows", "/stats", "/stream"):
            stack.call("GET", path)  # each starts a function
        large(stack, browser)
    finally:
        stack.end()


def on_dev(place: Path, browser: Chromium) -> None:
    dev = Dev(place / "workflows", place / "data")
    try:
        large(dev, browser)
    finally:
        dev.end(signal.SIGTERM)
    fill(place / "data" / DATABASE_FILE)
    dev = Dev(place / "workflows", place / "data")
    try:
        shown(browser, f"{dev.url}/#/runs", lambda page: page.locator(".runs tbody tr").first.wait_for(),
              f"the list of {RUNS:,} runs")  # fmt: skip
    finally:
        dev.end(signal.SIGKILL)


def large(dev: Dev, browser: Chromium) -> None:
    run_id = waits(dev, start(dev, "long", {"count": STEPS_DONE}), "sleep")
    shown(browser, f"{dev.url}/#/runs/{run_id}", lambda page: page.locator(".entry").first.wait_for(),
          f"a run with {2 * STEPS_DONE:,} history entries, the first")  # fmt: skip
    shown(browser, f"{dev.url}/#/runs/{run_id}", _all_read, f"a run with {2 * STEPS_DONE:,} history entries, all")
    run_id = waits(dev, start(dev, "wide", {"width": WIDTH}), "approval")
    shown(browser, f"{dev.url}/#/runs/{run_id}", lambda page: page.locator(".branches li").first.wait_for(),
          f"a run with {WIDTH:,} branches")  # fmt: skip
    run_id = waits(dev, start(dev, "idle", {}), "approval")
    feels(browser, dev, run_id)
    run_id = waits(dev, start(dev, "idle", {}), "approval")
    at_rest(browser, f"{dev.url}/#/runs/{run_id}")


def waits(dev: Dev, run_id: str, kind: str) -> str:
    """Waits until the run does. The list tells: each look at a run counts its branches, or reads its log."""
    began, found = time.monotonic(), False
    while not found:
        assert time.monotonic() < began + MOST_SECONDS, f"{run_id} does not wait for {kind}"
        time.sleep(1)
        status, page = dev.call("GET", f"/runs?waiting_for={kind}")  # which a busy emulator refuses at times
        found = status == OK and any(run["run_id"] == run_id for run in page["items"])
    print(f"{run_id} was made in {time.monotonic() - began:.0f} s", flush=True)
    return run_id


def feels(browser: Chromium, dev: Dev, run_id: str) -> None:
    """From the answer to an approval that somebody else gives to the page that shows it."""
    page = browser.open()
    page.goto(f"{dev.url}/#/runs/{run_id}")
    page.locator(".title .status", has_text="waiting").wait_for()
    page.wait_for_timeout(5000)  # its feed is open
    dev.call("POST", f"/runs/{run_id}/approve", {"by": "ana"})
    began = time.monotonic()
    page.locator(".entry", has_text="approval.received").or_(
        page.locator(".title .status", has_text="completed")
    ).first.wait_for()
    print(f"a change, after its commit: {time.monotonic() - began:.1f} s", flush=True)
    browser.close(page)


def _all_read(page: Page) -> None:
    page.locator(".history .aside > .muted", has_text=str(2 * STEPS_DONE + 4)).wait_for(timeout=MOST_SECONDS * 1000)


def at_rest(browser: Chromium, url: str) -> None:
    page = browser.open()
    asked: list[str] = []
    page.goto(url)
    page.wait_for_timeout(SETTLED_MS)  # each look at what does not change comes later than the one before
    page.on("request", lambda request: asked.append(request.url))
    page.wait_for_timeout(LOOKED_MINUTES * 60_000)
    print(f"requests a minute for a run at rest: {len(asked) / LOOKED_MINUTES:.1f}", flush=True)
    browser.close(page)


def shown(browser: Chromium, url: str, seen: Callable[[Page], None], what: str) -> None:
    page = browser.open()
    page.set_default_timeout(MOST_SECONDS * 1000)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    began = time.monotonic()
    page.goto(url)
    seen(page)
    took = time.monotonic() - began
    calls = sum("/console/" not in one for one in asked) - 1  # without its own files, and itself
    print(f"{what}: {took:.1f} s, {calls} calls; first paint {page.evaluate(PAINTED) / 1000:.2f} s", flush=True)
    browser.close(page)


def fill(file: Path) -> None:
    """Copies a run that waits, with other ids and times."""
    with sqlite3.connect(file) as database:
        names = [row[1] for row in database.execute("PRAGMA table_info(runs)") if row[1] != "run_id"]
        kept = ", ".join("created_ms - n.value" if name == "created_ms" else name for name in names)
        database.execute(
            f"WITH RECURSIVE n(value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM n WHERE value < {RUNS}) "  # noqa: S608
            f"INSERT INTO runs (run_id, {', '.join(names)}) SELECT 'run_' || n.value, {kept} "
            "FROM (SELECT * FROM runs WHERE workflow = 'idle' LIMIT 1), n"
        )
    database.close()


if __name__ == "__main__":
    main()
