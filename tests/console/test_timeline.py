"""The timeline and the graph of a run: what was not undone, and a log that is longer than what is drawn or read."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.console.chromium import Chromium
from tests.console.kit import reaches, start
from tests.local.kit import Dev

STEPS = """
from stepwell import workflow

def book(what: str) -> str:
    return what

def pay() -> None:
    raise ValueError("declined")

def release() -> None:
    raise ValueError("cannot be undone")

@workflow
async def long(ctx):
    for number in range(300):
        await ctx.step(book, str(number))
"""
TRIP = """
workflow: trip
failure_policy: compensate
timeline:
  - {name: room, run: python:steps.book, input: {what: room}, timeout: 10s, compensate: {run: python:steps.release}}
  - {name: pay, run: python:steps.pay, timeout: 10s}
"""


@pytest.fixture(scope="module")
def dev(browser: Chromium, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dev]:
    place: Path = tmp_path_factory.mktemp("timeline")
    (place / "workflows").mkdir()
    (place / "workflows" / "steps.py").write_text(STEPS)
    (place / "workflows" / "trip.yaml").write_text(TRIP)
    dev = Dev(place / "workflows", place / "data")
    yield dev
    dev.end(signal.SIGKILL)


@pytest.fixture(scope="module")
def long(dev: Dev) -> str:
    """A run with 604 entries of history and 300 operations."""
    return reaches(dev, start(dev, "long", {}), "completed")


def test_a_compensation_that_failed_is_red_on_the_timeline(dev: Dev, page: Page) -> None:
    run_id = reaches(dev, start(dev, "trip", {}), "failed")
    page.goto(f"{dev.url}/#/runs/{run_id}")
    bars = page.locator(".timeline .row", has_text="room").locator("i:not(.whole)")
    expect(bars).to_have_count(2)
    expect(bars.nth(0)).to_have_class("is-completed")
    expect(bars.nth(1)).to_have_class("is-failed")
    expect(bars.nth(1)).to_have_attribute("title", re.compile("^compensation failed, "))


def test_a_long_log_is_drawn_by_its_newest_operations_under_their_own_numbers(dev: Dev, long: str, page: Page) -> None:
    page.goto(f"{dev.url}/#/runs/{long}")
    expect(page.locator(".o-graph .aside")).to_have_text("200 of the newest 200 operations")
    expect(page.locator(".o-graph .node").nth(1)).to_contain_text("book (101)")


def test_an_ended_run_has_nothing_under_way_while_its_history_is_still_read(dev: Dev, long: str, page: Page) -> None:
    """The last step that has been read may have ended long before the run: its bar ends where the reading stands."""
    page.route(re.compile(r"/history\?.*after="), lambda _: None)  # the second page of the history never comes
    page.goto(f"{dev.url}/#/runs/{long}")
    expect(page.locator(".history .aside > .muted")).to_have_text("500+")
    widths = page.locator(".timeline i.is-running").evaluate_all(
        "bars => bars.map((bar) => parseFloat(bar.style.width))"
    )
    assert all(width < 5 for width in widths)
