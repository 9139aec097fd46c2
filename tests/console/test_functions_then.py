"""A durable function at an earlier moment: as its log has it, however fast its operations were."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.console.kit import reaches, start
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
"""


@pytest.fixture(scope="module")
def dev(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dev]:
    place: Path = tmp_path_factory.mktemp("then")
    (place / "workflows").mkdir()
    (place / "workflows" / "kitchen.py").write_text(FUNCTION)
    dev = Dev(place / "workflows", place / "data")
    yield dev
    dev.end(signal.SIGKILL)


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
    page.get_by_role("button", name="look back").click()
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


def row_of(graph: Locator, name: str) -> str:
    place = graph.locator(".node", has=graph.page.locator("text.name", has_text=name)).first.get_attribute("transform")
    return str(place).partition(" ")[2]
