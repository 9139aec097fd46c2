"""A run's forks as its page shows them: after a redrive, and where branches failed."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, Route, expect

from tests.console.chromium import Chromium
from tests.console.conftest import Served
from tests.console.kit import reaches, start
from tests.local.kit import Dev

STEPS = """
import asyncio
from pathlib import Path
from stepwell import workflow

def pick(number: int, mended: str) -> int:
    if number == 3 and not Path(mended).exists():
        raise ValueError("torn")
    return number

def ship() -> str:
    return "shipped"

@workflow
async def beside(ctx, mended: str):
    async def fails():
        await ctx.sleep(0.5)
        return await ctx.step(pick, 3, mended)

    return await asyncio.gather(ctx.sleep(2), fails())
"""
SHELF = """
workflow: shelf
nodes:
  begin: {transitions: [{to: pick, foreach: "{{ input.numbers }}", as: number}]}
  pick:
    run: python:steps.pick
    input: {number: "{{ state.number }}", mended: "{{ input.mended }}"}
    transitions: [{to: weigh}]
  weigh: {transitions: [{to: all_in}]}
  all_in: {fan_in: {policy: all}, transitions: [{to: ship}]}
  ship: {run: python:steps.ship}
"""
NUMBERS = 101  # more than the branches that the history tells of


@pytest.fixture(scope="module")
def shelf(browser: Chromium, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A run of which one branch failed, and the redrive of it, which completed."""
    place: Path = tmp_path_factory.mktemp("forks")
    (place / "workflows").mkdir()
    (place / "workflows" / "steps.py").write_text(STEPS)
    (place / "workflows" / "shelf.yaml").write_text(SHELF)
    dev = Dev(place / "workflows", place / "data")
    mended = place / "mended"
    try:
        tasks = reaches(dev, start(dev, "beside", {"mended": str(mended)}), "failed")
        failed = reaches(dev, start(dev, "shelf", {"numbers": [*range(NUMBERS)], "mended": str(mended)}), "failed")
        mended.touch()
        status, again = dev.call("POST", f"/runs/{failed}/redrive", {})
        assert status == 201, again
        completed = reaches(dev, str(again["run_id"]), "completed")
        _, going_on = dev.call("POST", f"/runs/{tasks}/redrive", {})
        beside = reaches(dev, str(going_on["run_id"]), "completed")
        yield Served(dev, {"failed": failed, "redriven": completed, "beside": beside})
    finally:
        dev.end(signal.SIGKILL)


def test_a_redriven_run_lists_the_branches_of_the_fork_that_it_reopened(shelf: Served, page: Page) -> None:
    """Those of the fork before are not its own, and there is no other fork to choose."""
    page.goto(f"{shelf.dev.url}/#/runs/{shelf.runs['redriven']}")
    expect(page.locator(".branches li .status").first).to_have_text("completed")
    expect(page.locator(".branches li .status", has_text="completed")).to_have_count(50)
    expect(page.get_by_label("Fork", exact=True)).to_have_count(0)


def test_the_timeline_of_a_redriven_run_has_the_branches_that_went_on(shelf: Served, page: Page) -> None:
    page.goto(f"{shelf.dev.url}/#/runs/{shelf.runs['redriven']}")
    bars = page.locator(".timeline .row", has_text="pick").locator("i:not(.whole)")
    expect(bars).to_have_count(1)
    expect(bars).to_have_attribute("title", re.compile(rf"^\d+ of {NUMBERS} branches, "))


def test_the_rows_of_a_redriven_run_begin_within_its_time_axis(shelf: Served, page: Page) -> None:
    """Of a name that both runs have, a row began with the run before: its bar stood out to the left."""
    page.goto(f"{shelf.dev.url}/#/runs/{shelf.runs['beside']}")
    row = page.locator(".timeline .row", has_text="sleep")
    expect(row.locator(".whole")).to_have_count(1)
    bars = row.locator(".track i").evaluate_all("bars => bars.map(one => [one.style.left, one.style.width])")
    for left, width in ((float(left.rstrip("%")), float(width.rstrip("%"))) for left, width in bars):
        assert left >= 0, bars
        assert left + width < 100.5, bars
    expect(row.locator("i:not(.whole)")).to_have_count(1)  # the sleep that had ended is the other run's


def test_a_step_whose_branches_made_the_run_fail_is_red_in_the_graph(shelf: Served, page: Page) -> None:
    """Also where other branches had gone on behind it."""
    page.goto(f"{shelf.dev.url}/#/runs/{shelf.runs['failed']}")
    expect(page.locator(".node.is-failed", has_text="pick")).to_have_count(1)


def test_what_a_branch_waits_for_and_its_last_error_stand_apart(shelf: Served, page: Page) -> None:
    def tried_again(route: Route) -> None:
        document = route.fetch().json()
        error = {**document["items"][0], "error": {"type": "Transient", "message": "later", "step": "pick"}}
        one = {**error, "status": "waiting", "current_step": "pick", "waiting_for": "limit"}
        route.fulfill(json={**document, "items": [one]})

    page.route(re.compile("/branches"), tried_again)
    page.goto(f"{shelf.dev.url}/#/runs/{shelf.runs['failed']}")
    expect(page.locator(".branches li .where")).to_have_text("pick · limit · Transient")
