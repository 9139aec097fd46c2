"""What a page says to somebody who may not call the API, who errs in a form, or who has a phone."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, Route, expect

from tests.console.conftest import Served
from tests.console.kit import start

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


@pytest.mark.parametrize("width", [360, 640, 770, 1090])
def test_a_long_name_of_a_workflow_leaves_a_list_within_the_page(served: Served, page: Page, width: int) -> None:
    def named(route: Route) -> None:
        answer = route.fetch().json()
        route.fulfill(json={**answer, "items": [{**run, "workflow": "x" * 100} for run in answer["items"]]})

    page.route("**/runs?*", named)
    page.set_viewport_size({"width": width, "height": 740})
    page.goto(f"{served.dev.url}/#/runs")
    status = page.locator(".runs .c-status").first
    expect(status).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    box = status.bounding_box()
    assert box is not None
    assert box["x"] + box["width"] < width


@pytest.mark.parametrize("place", ["runs", "inbox", "workflows", "workflows/order", "check", "runs/{fork}"])
def test_no_page_is_wider_than_a_small_phone(served: Served, page: Page, place: str) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    page.goto(f"{served.dev.url}/#/{place.format(**served.runs)}")
    expect(page.locator(".top .count")).to_be_visible()
    expect(page.locator("h1").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_title_without_an_end_stays_within_the_page(served: Served, page: Page) -> None:
    name = "x" * 120
    page.route(f"**/workflows/{name}", lambda route: route.fulfill(
        json={**route.fetch(url=f"{served.dev.url}/workflows/order").json(), "name": name}))  # fmt: skip
    page.set_viewport_size({"width": 360, "height": 740})
    page.goto(f"{served.dev.url}/#/workflows/{name}")
    expect(page.locator("h1")).to_contain_text(name)
    expect(page.locator(".empty").first).to_contain_text(name)  # its versions are not there
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_an_answer_of_something_else_than_stepwell_is_none(served: Served, page: Page) -> None:
    """Of a proxy that shows a page of its own, whatever status it gives that."""
    page.goto(f"{served.dev.url}/#/runs")
    expect(page.locator("table.runs tbody tr").first).to_be_visible()
    page.route("**/workflows", lambda route: route.fulfill(status=200, content_type="text/html", body="<h1>Hotel</h1>"))
    page.goto(f"{served.dev.url}/#/workflows")
    expect(page.locator(".lost")).to_contain_text("The server does not answer")
    page.unroute("**/workflows")
    expect(page.locator(".lost")).to_have_count(0)
    expect(page.get_by_role("link", name="order").first).to_be_visible()
    page.route("**/runs/none", lambda route: route.fulfill(status=404, content_type="text/html", body="<h1>Hotel</h1>"))
    page.goto(f"{served.dev.url}/#/runs/none")
    expect(page.locator(".empty")).to_contain_text("The server answered 404")


def test_the_inbox_keeps_what_is_being_read_although_something_is_due_sooner(served: Served, page: Page) -> None:
    hidden = [served.runs["waiting"]]

    def without_the_first(route: Route) -> None:
        answer = route.fetch().json()
        route.fulfill(json={**answer, "items": [run for run in answer["items"] if run["run_id"] not in hidden]})

    page.route("**/runs?*", without_the_first)
    page.goto(f"{served.dev.url}/#/inbox")
    chosen, rows = page.locator(".inbox li.is-chosen"), page.locator(".inbox li")
    _, asked = served.dev.call("GET", "/runs?waiting_for=approval&limit=200")
    expect(rows).to_have_count(len(asked["items"]) - 1)
    before = chosen.inner_text()
    hidden.clear()
    start(served.dev, "order", {"order_id": "A-1", "amount": 1})
    expect(rows.first).to_contain_text(served.runs["waiting"][-6:])
    assert chosen.inner_text() == before


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
