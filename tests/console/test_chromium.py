"""The tests' own browser: one that answers nothing is ended, and another one opens the page."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from tests.console.chromium import Chromium, browsing, chromium
from tests.local.kit import DEADLINE_SECONDS

LOOKED_AT = "data:text/html,<h1>here</h1>"


@pytest.fixture
def browser() -> Iterator[Chromium]:
    if chromium() is None:
        pytest.skip("no Chromium: install the package `chromium-headless-shell`")
    with browsing() as found:
        yield found


def stop(browser: Chromium) -> None:
    browser.deadline_seconds = 1
    subprocess.run(["pkill", "-STOP", "-f", "--", browser.name], check=True)  # noqa: S603, S607


def test_a_page_is_opened_by_another_browser_when_the_first_answers_nothing(browser: Chromium) -> None:
    browser.close(browser.open())
    stop(browser)
    page = browser.open()
    page.goto(LOOKED_AT)
    assert page.locator("h1").inner_text() == "here"


def test_a_page_of_a_browser_that_answers_nothing_is_closed_with_it(browser: Chromium) -> None:
    page = browser.open()
    stop(browser)
    browser.close(page)
    browser.deadline_seconds = DEADLINE_SECONDS
    browser.close(browser.open())
