"""A durable function at an earlier moment: as its log has it, however fast its operations were."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.console.chromium import Chromium
from tests.console.kit import look_back, reaches, start
from tests.local.kit import Dev

FUNCTION = """
from stepwell import WorkflowContext, workflow

def taste() -> int:
    return 1

def salt() -> int:
    return 2

def stir() -> int:
    return 3

def fetch(what: str) -> str:
    return what

@workflow
async def soup(ctx: WorkflowContext):
    await ctx.step(taste)
    await ctx.all(ctx.step(salt), ctx.step(stir))
    await ctx.map(fetch, ["leek", "rice", "milk"])
    await ctx.step(taste)
    await ctx.approval("guest")

@workflow
async def table(ctx: WorkflowContext):
    guests: list[str] = []
    ctx.update("seat", lambda name: guests.append(name))
    await ctx.step(taste)
    await ctx.until(lambda: len(guests) >= 2, timeout="1h")
    await ctx.step(stir)

@workflow
async def tasted(ctx: WorkflowContext):
    await ctx.step(taste)
    await ctx.approval("taste")

@workflow
async def served(ctx: WorkflowContext):
    await ctx.event("hungry")
    await ctx.step(taste)
"""


@pytest.fixture(scope="module")
def dev(browser: Chromium, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dev]:
    place: Path = tmp_path_factory.mktemp("then")
    (place / "workflows").mkdir()
    (place / "workflows" / "kitchen.py").write_text(FUNCTION)
    dev = Dev(place / "workflows", place / "data")
    yield dev
    dev.end(signal.SIGKILL)


def test_the_timeline_has_a_row_for_a_step_and_one_for_an_approval_of_its_name(dev: Dev, page: Page) -> None:
    run_id = reaches(dev, start(dev, "tasted", {}), "waiting")
    page.goto(f"{dev.url}/#/runs/{run_id}")
    rows = page.locator(".timeline .row .name")
    expect(rows).to_have_text(["taste", "taste (approval)"])
    rows.last.click()
    expect(page.locator(".entry", has_text="approval.requested")).to_have_count(1)


def drawn(graph: Locator) -> dict[str, str]:
    """The nodes with their states, in the order in which they stand."""
    label = graph.locator("svg").get_attribute("aria-label") or ""
    parts = [part.rpartition(" ") for part in label.removeprefix("Graph: ").split(", ")]
    return {name: state for name, _, state in parts}


def test_each_moment_has_the_operations_of_its_log_in_the_logs_order(dev: Dev, page: Page) -> None:
    """A name that is used twice is two nodes, operations of an `all` stand side by side, a map is one node."""
    run_id = reaches(dev, start(dev, "soup", {}), "waiting")
    page.goto(f"{dev.url}/#/runs/{run_id}")
    expect(page.locator(".o-graph .node")).to_have_count(7)
    today = [*drawn(page.locator(".o-graph .graph"))]
    assert today == ["soup", "taste", "salt", "stir", "fetch", "taste (2)", "guest"]
    look_back(page)
    graph = page.locator(".moments .graph")
    expect(graph).to_be_visible()
    slider = page.locator(".moments input[type=range]")
    last = int(slider.get_attribute("max") or 0)
    moments: list[dict[str, str]] = []
    for at in range(last + 1):
        slider.fill(str(at))
        expect(page.locator(".moments output")).to_have_text(f"{at} of {last}")
        expect(page.locator(".moment")).to_have_attribute("aria-busy", "false")
        moments.append(drawn(graph))
        if {"salt", "stir"} <= {*moments[-1]}:
            assert row_of(graph, "salt") == row_of(graph, "stir")
    assert [*moments[-1]] == today
    for before, after in pairwise(moments):
        assert {*before} <= {*after}  # nothing that had begun goes away
        assert [name for name in after if name in before] == [*before]
    assert any("taste" in one and "salt" not in one for one in moments)
    assert any("fetch" in one and "taste (2)" not in one for one in moments)
    assert moments[-2]["taste"] == "completed"


def test_a_wait_for_a_condition_has_a_node_a_bar_and_its_moments(dev: Dev, page: Page) -> None:
    """An update reaches it and does not end it; the update after which its condition holds does."""
    run_id = reaches(dev, start(dev, "table", {}), "waiting")
    seat(dev, run_id, "ana")
    page.goto(f"{dev.url}/#/runs/{run_id}")
    graph, bars = page.locator(".o-graph .graph"), page.locator(".timeline .row .name")
    expect(graph.locator("svg")).to_have_attribute("aria-label", "Graph: table waiting, taste completed, until waiting")
    expect(page.locator(".o-graph .aside")).to_have_text("1 of 2 operations")  # that are drawn
    expect(bars).to_have_text(["taste", "until"])
    expect(page.locator(".timeline .row", has_text="until").locator("i.is-waiting")).to_have_count(1)
    page.locator(".timeline .row", has_text="until").click()
    expect(page.locator(".history .type")).to_have_text(["tasks.waiting", "update.received"])
    expect(page.locator(".history .step").first).to_have_text(re.compile("^until[A-Z0-9]"))  # not "until until"
    seat(dev, run_id, "ben")
    expect(page.locator(".title .status")).to_have_text("completed")
    expect(bars).to_have_text(["taste", "until", "stir"])
    seen = [state.get("until") for state in moments_of(page)]
    assert [state for state, before in zip(seen, [None, *seen], strict=False) if state != before] == [
        "waiting",
        "completed",
    ]


def test_a_wait_that_is_over_is_shown_so_at_the_moments_after_it(dev: Dev, page: Page) -> None:
    run_id = reaches(dev, start(dev, "served", {}), "waiting")
    assert dev.call("POST", f"/runs/{run_id}/events", {"name": "hungry"})[0] == 202
    reaches(dev, run_id, "completed")
    page.goto(f"{dev.url}/#/runs/{run_id}")
    assert [state["hungry"] for state in moments_of(page)] == ["waiting", "completed", "completed", "completed"]


def seat(dev: Dev, run_id: str, name: str) -> None:
    assert dev.call("POST", f"/runs/{run_id}/updates/seat?wait=20", {"input": {"name": name}})[0] == 200


def moments_of(page: Page) -> list[dict[str, str]]:
    """The nodes and their states after each record."""
    look_back(page)
    slider, graph = page.locator(".moments input[type=range]"), page.locator(".moments .graph")
    expect(graph).to_be_visible()
    found = []
    for at in range(int(slider.get_attribute("max") or 0) + 1):
        slider.fill(str(at))
        expect(page.locator(".moments output")).to_have_text(re.compile(f"^{at} of"))
        expect(page.locator(".moment")).to_have_attribute("aria-busy", "false")
        found.append(drawn(graph))
    return found


def row_of(graph: Locator, name: str) -> str:
    place = graph.locator(".node", has=graph.page.locator("text.name", has_text=name)).first.get_attribute("transform")
    return str(place).partition(" ")[2]
