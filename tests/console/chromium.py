"""A headless Chromium that is ended when it answers nothing, and asked anew: one start in a thousand ends so.

Nothing in the tests' own process bounds such a call: a test that made it never ended.
"""

from __future__ import annotations

import shutil
import subprocess
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser, Error, Page, Playwright, sync_playwright

from tests.local.kit import DEADLINE_SECONDS

# What Chromium asks of the network by itself is switched off: it must ask nobody but the server.
QUIET = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync")  # fmt: skip


def chromium() -> str | None:
    """Returns the path of an installed Chromium; first of one without windows, which needs less time."""
    names = "chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable"
    found = (shutil.which(name) for name in names)
    return next((path for path in found if path), None)


class Chromium:
    """`name`: an argument of its process, by which that is found."""

    def __init__(self, playwright: Playwright) -> None:
        self._playwright, self.deadline_seconds = playwright, DEADLINE_SECONDS
        self._browser: Browser | None = None
        self.name = f"--of-the-tests={uuid.uuid4().hex}"

    def open(self, **look: Any) -> Page:
        """Returns a page in a context of its own, which it looks like."""
        with self._ended_if_it_hangs() as ended:
            try:
                return self._opened(look)
            except Error:
                if not ended:
                    raise
        return self._opened(look)

    def close(self, page: Page) -> None:
        """Closes the page and its context."""
        with self._ended_if_it_hangs() as ended:
            try:
                page.context.close()
            except Error:
                if not ended:
                    raise

    def end(self) -> None:
        with self._ended_if_it_hangs():
            if self._browser is not None:
                self._browser.close()

    def _opened(self, look: dict[str, Any]) -> Page:
        if self._browser is None or not self._browser.is_connected():
            self._browser = self._playwright.chromium.launch(executable_path=chromium(), args=[*QUIET, self.name])
        return self._browser.new_context(**look).new_page()

    @contextmanager
    def _ended_if_it_hangs(self) -> Iterator[list[str]]:
        """Yields a list that gets the name of a browser that is ended."""
        ended: list[str] = []

        def end() -> None:
            ended.append(self.name)
            subprocess.run(["pkill", "-KILL", "-f", "--", self.name], check=False)  # noqa: S603, S607

        timer = threading.Timer(self.deadline_seconds, end)
        timer.start()
        try:
            yield ended
        finally:
            timer.cancel()


@contextmanager
def browsing() -> Iterator[Chromium]:
    with sync_playwright() as playwright:
        found = Chromium(playwright)
        try:
            yield found
        finally:
            found.end()
