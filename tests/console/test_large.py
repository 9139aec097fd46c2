"""Runs of 10,000 branches and of 10,000 history entries in the console. They take a minute to make."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.console.chromium import Chromium
from tests.console.kit import reaches, start
from tests.local.kit import Dev, until

pytestmark = pytest.mark.slow

STEPS = """
from stepwell import workflow

def one(n: int) -> int:
    return n

def many(width: int) -> list:
    return [{"n": number} for number in range(width)]

@workflow
async def long(ctx, count: int):
    for number in range(count):
        await ctx.step(one, number)
    await ctx.sleep("1d")
"""
WIDE = """
workflow: wide
nodes:
  many: {run: python:steps.many, timeout: 20s, transitions: [{to: read, foreach: "{{ state.many }}"}]}
  read: {run: python:steps.one, input: {n: "{{ branch.item.n }}"}, timeout: 10s, transitions: [{to: gather}]}
  gather: {fan_in: {policy: all}, transitions: [{to: check}]}
  check: {wait: {for: approval}}
"""


@pytest.fixture(scope="module")
def dev(browser: Chromium, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dev]:
    place: Path = tmp_path_factory.mktemp("large")
    (place / "workflows").mkdir()
    (place / "workflows" / "steps.py").write_text(STEPS)
    (place / "workflows" / "wide.yaml").write_text(WIDE)
    dev = Dev(place / "workflows", place / "data")
    yield dev
    dev.end(signal.SIGKILL)


def test_10_000_history_entries_are_read_to_the_end_and_the_first_are_there_at_once(dev: Dev, page: Page) -> None:
    """Two hundred are drawn; the others are one click away."""
    run_id = reaches(dev, start(dev, "long", {"count": 5000}), "waiting")
    page.goto(f"{dev.url}/#/runs/{run_id}")
    expect(page.locator(".entry").first).to_be_visible()
    expect(page.locator(".history .aside > .muted")).to_have_text("10004")
    assert page.locator(".entry").count() == 200
    assert page.locator(".timeline i").count() < 2000
    expect(page.get_by_role("button", name="9804 earlier entries")).to_be_visible()


def test_10_000_branches_are_one_node_with_counts_and_a_page_of_them(dev: Dev, page: Page) -> None:
    run_id = start(dev, "wide", {"width": 10_000})
    waiting = "/runs?waiting_for=approval"  # the list, because each look at the run itself counts its branches
    until(lambda: dev.call("GET", waiting)[1]["items"], "all branches have ended")
    page.goto(f"{dev.url}/#/runs/{run_id}")
    expect(page.locator(".node", has_text="read").locator(".kind")).to_have_text("10000 completed")
    expect(page.locator(".branches li")).to_have_count(50)
