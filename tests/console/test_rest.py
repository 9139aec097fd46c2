"""How often a page at rest asks its server: counts, by a clock that the test moves."""

from __future__ import annotations

from collections import Counter
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect

from tests.console.conftest import Served

SETTLED_SECONDS, WATCHED_MINUTES = 150, 5
TICK_MS, ANSWERED_MS = 5000, 40  # the page's time, and the real time in which what it asked then is answered
# What docs/console.md says: requests a minute, with the feed.
A_MINUTE = {"#/runs/{waiting}": 4, "#/runs": 6, "#/inbox": 7, "#/workflows": 12, "#/workflows/order": 11, "#/check": 3}
RARELY_OPEN = {"#/workflows/order", "#/check"}  # with the command of the slow tests


@pytest.mark.parametrize(
    "place", [pytest.param(one, marks=pytest.mark.slow) if one in RARELY_OPEN else one for one in A_MINUTE]
)
def test_a_page_at_rest_asks_as_often_as_the_documentation_says(served: Served, page: Page, place: str) -> None:
    """Of a page whose feed is open. What came to rest a moment ago is looked at more often."""
    asked = Counter[str]()
    page.clock.install()
    page.goto(f"{served.dev.url}/{place.format(**served.runs)}")
    expect(page.locator("main h1")).to_be_visible()
    page.wait_for_timeout(500)  # the feed opens
    pass_by(page, SETTLED_SECONDS)
    page.on("request", lambda request: asked.update([urlsplit(request.url).path]))
    pass_by(page, WATCHED_MINUTES * 60)
    assert round(asked.total() / WATCHED_MINUTES) <= A_MINUTE[place], asked
    assert asked["/stats"] > 0  # it watches


def pass_by(page: Page, seconds: int) -> None:
    for _ in range(seconds * 1000 // TICK_MS):
        page.clock.run_for(TICK_MS)
        page.wait_for_timeout(ANSWERED_MS)
