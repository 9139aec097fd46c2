"""What a page says to somebody who may not call the API, who errs in a form, or who has a phone."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, Route, expect

from tests.console.conftest import Served

SAID = {
    "#/runs": "These runs cannot be listed",
    "#/inbox": "What waits cannot be listed",
    "#/workflows": "The workflows cannot be listed",
    "#/workflows/order": "This workflow cannot be shown",
    "#/runs/{waiting}": "This run cannot be shown",
}


def refuse(route: Route) -> None:
    """As API Gateway does where IAM does not allow a call."""
    if route.request.resource_type == "fetch":
        route.fulfill(status=403, content_type="application/json", body='{"message": "Forbidden"}')
    else:
        route.continue_()


@pytest.mark.parametrize("place", SAID)
def test_a_page_says_that_its_reader_may_not_see_it(served: Served, page: Page, place: str) -> None:
    page.route("**/*", refuse)
    page.goto(f"{served.dev.url}/{place.format(**served.runs)}")
    expect(page.locator(".empty")).to_contain_text(SAID[place])
    expect(page.locator(".empty")).to_contain_text("Forbidden")


@pytest.mark.parametrize("status", [403, 503])
def test_without_the_counts_a_page_says_so_and_shows_none(served: Served, page: Page, status: int) -> None:
    """Every status can be chosen then: nobody knows which there are."""
    said = {"title": "Forbidden", "status": status, "code": "forbidden"}
    page.route("**/stats", lambda route: route.fulfill(status=status, json=said))
    page.goto(f"{served.dev.url}/#/runs")
    chips = page.get_by_role("group", name="Status")
    expect(chips).to_contain_text("Counts cannot be shown: Forbidden")
    expect(chips.get_by_role("button").first).to_have_text("all")
    expect(chips.get_by_role("button", name="completed", exact=True)).to_be_visible()
    expect(page.get_by_label("Waits for").locator("option")).to_contain_text(["anything", "approval"])
    expect(page.locator("table.runs tbody tr").first).to_be_visible()
    for place in ("#/workflows", "#/workflows/order"):
        page.goto(f"{served.dev.url}/{place}")
        expect(page.locator(".counts").first).to_have_text("its runs, whose counts cannot be shown: Forbidden")
        expect(page.get_by_text("no runs", exact=True)).to_have_count(0)


def test_a_card_of_a_page_says_so_too(served: Served, page: Page) -> None:
    for path in ("**/failures?*", "**/versions"):
        page.route(path, refuse)
    page.goto(f"{served.dev.url}/#/workflows/order")
    expect(page.locator(".empty")).to_contain_text(["The versions cannot be listed", "What failed cannot be listed"])


@pytest.mark.parametrize(
    ("route", "place", "said"),
    [
        ("**/logs?*", "#/runs/{waiting}", r"GET /runs/run_…\w+/logs\."),
        ("**/graph?*", "#/runs/{waiting}", r"GET /runs/run_…\w+/graph\."),
        ("**/limits", "#/workflows", r"GET /limits\."),
        ("**/schedules", "#/workflows/order", r"GET /schedules\."),
    ],
)
def test_a_page_names_what_its_reader_may_not_see(
    served: Served, page: Page, route: str, place: str, said: str
) -> None:
    """By its route, as permissions do; the next page has nothing of it."""
    page.route(route, refuse)
    page.goto(f"{served.dev.url}/{place.format(**served.runs)}")
    expect(page.locator(".forbidden")).to_contain_text("You may not see all of this page.")
    expect(page.locator(".forbidden")).to_have_text(re.compile(said))
    page.get_by_role("link", name="Inbox").click()
    expect(page.locator(".inbox")).to_be_visible()
    expect(page.locator(".forbidden")).to_have_count(0)


def test_a_dialog_without_workflows_says_why(served: Served, page: Page) -> None:
    page.route("**/*", refuse)
    page.goto(f"{served.dev.url}/#/runs")
    page.get_by_role("button", name="Start a run").click()
    expect(page.locator("dialog .told")).to_have_text("Forbidden")


def test_a_mistake_in_json_is_told_by_the_fields_name(served: Served, page: Page) -> None:
    page.goto(f"{served.dev.url}/#/runs/{served.runs['waiting']}")
    page.get_by_role("button", name="Approve", exact=True).click()
    page.get_by_label("Data for").fill('{"ok": true')
    page.locator("dialog button[type=submit]").click()
    expect(page.locator("dialog .told")).to_contain_text("Data for the workflow: this is not JSON")


def test_what_a_branch_is_of_is_shown_on_a_phone_too(served: Served, page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{served.dev.url}/#/runs/{served.runs['fork']}")
    expect(page.locator(".branches .item").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_what_is_due_is_told_to_the_nearest_unit(served: Served, page: Page) -> None:
    """A wait of 24 hours that began a moment ago is not one of 23."""
    page.goto(f"{served.dev.url}/#/runs/{served.runs['waiting']}")
    expect(page.locator(".why")).to_contain_text("in 1 d")


@pytest.mark.parametrize(
    ("place", "said"),
    [("runs", "Reading the runs"), ("inbox", "Reading what waits"), ("workflows", "Reading the workflows")],
)
def test_a_page_says_that_it_reads_while_its_server_takes_long(
    served: Served, page: Page, place: str, said: str
) -> None:
    """Of what is read at once it says nothing: that would flicker."""
    held: list[Route] = []
    page.route(re.compile(r"/(runs\?|workflows$)"), lambda route: held.append(route))  # noqa: PLW0108 - Playwright marks what it calls
    page.goto(f"{served.dev.url}/#/{place}")
    expect(page.locator(".loading")).to_contain_text(said)
    for route in held:
        route.abort()
    page.unroute_all()
    page.reload()
    expect(page.locator(".runs, .inbox, .tiles .card").first).to_be_visible()
    expect(page.locator(".loading")).to_have_count(0)
