"""Measures the figures of docs/console.md: bytes, first paint, large runs, 100,000 runs, requests a minute.

uv run python -m tests.console.figures
"""

from __future__ import annotations

import gzip
import signal
import sqlite3
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Browser, Page

from stepwell.api.console import BUILT
from stepwell.local.wiring import DATABASE_FILE
from tests.console.kit import browsing, reaches, start
from tests.console.test_large import STEPS, WIDE
from tests.local.kit import Dev, until

RUNS = 100_000
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


def large(dev: Dev, browser: Browser) -> None:
    run_id = reaches(dev, start(dev, "idle", {}), "waiting")
    at_rest(browser, f"{dev.url}/#/runs/{run_id}")
    run_id = start(dev, "wide", {"width": 10_000})
    waiting = "/runs?waiting_for=approval&workflow=wide"
    until(lambda: dev.call("GET", waiting)[1]["items"], "all branches have ended")
    shown(browser, f"{dev.url}/#/runs/{run_id}", lambda page: page.locator(".branches li").first.wait_for(),
          "a run with 10,000 branches")  # fmt: skip
    run_id = reaches(dev, start(dev, "long", {"count": 5000}), "waiting")
    shown(browser, f"{dev.url}/#/runs/{run_id}", lambda page: page.locator(".entry").first.wait_for(),
          "a run with 10,000 history entries, the first")  # fmt: skip
    shown(browser, f"{dev.url}/#/runs/{run_id}", _all_read, "a run with 10,000 history entries, all")


def _all_read(page: Page) -> None:
    page.locator(".history .aside > .muted", has_text="10004").wait_for(timeout=120_000)


def at_rest(browser: Browser, url: str) -> None:
    page = browser.new_page()
    asked: list[str] = []
    page.goto(url)
    page.wait_for_timeout(10_000)
    page.on("request", lambda request: asked.append(request.url))
    page.wait_for_timeout(60_000)
    print(f"requests a minute for a run at rest: {len(asked)}")
    page.close()


def shown(browser: Browser, url: str, seen: Callable[[Page], None], what: str) -> None:
    page = browser.new_page()
    began = time.monotonic()
    page.goto(url)
    seen(page)
    print(f"{what}: {time.monotonic() - began:.1f} s; first paint {page.evaluate(PAINTED) / 1000:.2f} s", flush=True)
    page.close()


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
