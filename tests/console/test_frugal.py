"""What a page asks of its server: each thing once, two at a time, and what moves on while it is read."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, Request, Route, expect

from tests.console.chromium import Chromium
from tests.console.conftest import Served
from tests.console.kit import reaches, start
from tests.local.kit import Dev

AT_ONCE = 2
BRANCHES, STEPS = 90, 4  # with more entries than a page of the history has
STRIPS = """
workflow: strips
nodes:
  begin: {transitions: [{to: one, foreach: "{{ input.items }}"}]}
  one: {run: python:steps.one, timeout: 20s, transitions: [{to: two}]}
  two: {run: python:steps.one, timeout: 20s, transitions: [{to: three}]}
  three: {run: python:steps.one, timeout: 20s, transitions: [{to: four}]}
  four: {run: python:steps.one, timeout: 20s, transitions: [{to: gather}]}
  gather: {fan_in: {policy: all}}
"""


@pytest.fixture(scope="module")
def strips(browser: Chromium, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dev]:
    place: Path = tmp_path_factory.mktemp("strips")
    (place / "workflows").mkdir()
    (place / "workflows" / "steps.py").write_text("def one():\n    return 1\n")
    (place / "workflows" / "strips.yaml").write_text(STRIPS)
    dev = Dev(place / "workflows", place / "data")
    yield dev
    dev.end(signal.SIGKILL)


class Asked:
    """The calls of a page's API: how often each, and how many at once."""

    def __init__(self, page: Page) -> None:
        self.paths: Counter[str] = Counter()
        self.open: set[Request] = set()
        self.most = 0
        page.on("request", self._begins)
        page.on("requestfinished", self._ends)
        page.on("requestfailed", self._ends)

    def _ends(self, request: Request) -> None:
        self.open.discard(request)

    def _begins(self, request: Request) -> None:
        path = urlsplit(request.url).path
        if path == "/" or path.startswith("/console/"):
            return
        self.paths[path] += 1
        self.open.add(request)
        self.most = max(self.most, len(self.open))


def test_a_page_that_opens_asks_for_each_thing_once_and_for_two_at_a_time(served: Served, page: Page) -> None:
    """On AWS each call beside others may start a function."""
    asked = Asked(page)
    run = f"/runs/{served.runs['failed']}"  # it has ended: nothing of it is asked for again
    page.goto(f"{served.dev.url}/#{run}")
    expect(page.locator(".entry").first).to_be_visible()
    expect(page.locator(".node").first).to_be_visible()
    expect(page.locator(".why")).to_be_visible()
    for _ in range(600):
        if f"{run}/logs" in asked.paths and "/runs" in asked.paths and not asked.open:
            break
        page.wait_for_timeout(100)
    page.wait_for_timeout(1500)  # longer than to the next look at a run that goes on
    assert asked.paths[f"{run}/logs"] >= 1
    once = {name: asked.paths[name] for name in (run, f"{run}/history", f"{run}/graph", f"{run}/explain", "/stream")}
    assert set(once.values()) == {1}, once
    assert asked.paths["/stats"] == 1
    assert asked.most <= AT_ONCE


@pytest.mark.parametrize(
    ("place", "first"),
    [("runs", {"/runs?limit=50", "/stats"}), ("workflows", {"/workflows", "/stats"})],
)
def test_a_list_is_asked_for_before_what_stands_beside_it(
    served: Served, page: Page, place: str, first: set[str]
) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url.removeprefix(served.dev.url)))
    page.goto(f"{served.dev.url}/#/{place}")
    expect(page.locator(".runs tbody tr, .tiles .card").first).to_be_visible()
    called = [one for one in asked if one != "/" and not one.startswith(("/console/", "/#"))]
    assert {*called[:2]} == first


def test_a_graph_that_takes_longer_to_read_than_the_run_takes_to_move_is_drawn(served: Served, page: Page) -> None:
    """An answer that is late by a change is shown; the next one is asked for when it is there."""
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/graph?format=json", hold)
    run_id = reaches(served.dev, start(served.dev, "order", {"order_id": "A-9", "amount": 2}), "waiting")
    page.goto(f"{served.dev.url}/#/runs/{run_id}")
    expect(page.locator(".title .status")).to_have_text("waiting")
    until_held(page, held, 1)
    served.dev.call("POST", f"/runs/{run_id}/pause", {"by": "ana"})
    expect(page.locator(".title .status")).to_have_text("paused")
    page.wait_for_timeout(500)
    assert len(held) == 1  # one at a time
    held[0].continue_()
    expect(page.locator(".node").first).to_be_visible()
    until_held(page, held, 2)  # of the run as it is now
    held[1].continue_()


def until_held(page: Page, held: list[Route], count: int) -> None:
    for _ in range(600):
        if len(held) >= count:
            return
        page.wait_for_timeout(100)
    raise AssertionError(f"{len(held)} of {count} were asked for")


def test_a_fork_with_more_entries_than_a_page_of_the_history_is_read_to_its_end(strips: Dev, page: Page) -> None:
    """The root's last entry stands before all of them, so the pages behind the first go on from each other."""
    items = list(range(BRANCHES))
    run_id = reaches(strips, start(strips, "strips", {"items": items}), "completed")
    page.goto(f"{strips.url}/#/runs/{run_id}")
    expect(page.locator(".entry", has_text="run.completed")).to_be_visible()
    counted = int(page.locator(".history .aside > .muted").inner_text())
    assert counted > 2 * BRANCHES * STEPS > 500
    expect(page.get_by_role("button", name="Read on")).to_have_count(0)
