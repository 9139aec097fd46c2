"""What a page says to somebody who may not call the API, who errs in a form, or who has a phone."""

from __future__ import annotations

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
