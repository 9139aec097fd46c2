"""The page's live feed, as far as it meets what no run shows: a frame that says why a message cannot be answered."""

from __future__ import annotations

import json

from playwright.sync_api import Page, WebSocketRoute, expect

from tests.console.conftest import Served

REFUSED = json.dumps({"error": {"code": "unknown_run", "message": "there is no run 'run_0'"}})


def test_a_page_reads_again_when_its_feed_says_that_it_cannot_answer(served: Served, page: Page) -> None:
    """The run may have been deleted. On AWS the feed stays open then, and goes on with the page."""
    feeds: list[WebSocketRoute] = []

    def answer(feed: WebSocketRoute) -> None:
        feeds.append(feed)
        feed.on_message(lambda _: feed.send(json.dumps({"entries": []})))

    page.route_web_socket("**/*", answer)
    run = f"/runs/{served.runs['waiting']}"
    page.goto(f"{served.dev.url}/#{run}")
    expect(page.locator(".entry").first).to_be_visible()
    page.wait_for_timeout(4000)  # what it reads after opening is over
    with page.expect_request(lambda asked: asked.url.endswith(run)):
        feeds[0].send(REFUSED)
    assert len(feeds) == 1
