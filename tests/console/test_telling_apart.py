"""What a page tells apart: values, times, statuses and runs that look alike."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import Page, Route, expect

from tests.console.chromium import Chromium
from tests.console.conftest import Served
from tests.console.kit import look_back, start

BUTTON = "Copy the input as JSON"
DOT = "(dot) => getComputedStyle(dot).backgroundColor"
NONE = "rgba(0, 0, 0, 0)"


def test_a_text_that_looks_like_another_value_has_quotes(served: Served, page: Page) -> None:
    run_id = start(served.dev, "order", {"order_id": "1200", "amount": 1200, "note": ""})
    page.goto(f"{served.dev.url}/#/runs/{run_id}")
    told = page.locator(".o-values", has_text="Input").locator("li")
    expect(told).to_contain_text(['order_id"1200"', "amount1200", 'note""'])
    page.goto(f"{served.dev.url}/#/runs/{served.runs['done']}")
    expect(page.locator(".o-values", has_text="Input").locator("li").first).to_have_text("order_idA-1002")


def test_what_a_record_changed_has_the_texts_of_the_user_as_they_are(served: Served, page: Page) -> None:
    def with_underscores(route: Route) -> None:
        changes = [
            {"op": "add", "path": "/state/key", "before": None, "value": "order_id_7"},
            {"op": "replace", "path": "/state/note", "before": "", "value": "true"},
            {"op": "replace", "path": "/status", "before": "running", "value": "timed_out"},
        ]
        route.fulfill(json={**route.fetch().json(), "changes": changes})

    page.route("**/state?at=*", with_underscores)
    page.goto(f"{served.dev.url}/#/runs/{served.runs['done']}")
    look_back(page)
    expect(page.locator(".changes ins")).to_have_text(["order_id_7", '"true"', "timed out"])
    expect(page.locator(".changes del").first).to_have_text('""')


def test_a_value_is_copied_as_json(served: Served, page: Page) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(f"{served.dev.url}/#/runs/{served.runs['done']}")
    page.get_by_role("button", name=BUTTON).click()
    expect(page.get_by_role("button", name="copied")).to_be_visible()
    copied = json.loads(page.evaluate("navigator.clipboard.readText()"))
    assert (copied["order_id"], copied["amount"]) == ("A-1002", 12)


def test_a_page_says_so_if_nothing_could_be_copied(served: Served, page: Page) -> None:
    page.add_init_script("navigator.clipboard.writeText = () => Promise.reject(new Error('not allowed'))")
    page.goto(f"{served.dev.url}/#/runs/{served.runs['done']}")
    page.get_by_role("button", name=BUTTON).click()
    expect(page.get_by_role("button", name="not copied")).to_be_visible()


def test_a_time_names_its_zone_and_is_told_in_utc_too(served: Served, browser: Chromium) -> None:
    page = browser.open(timezone_id="Asia/Kolkata", locale="en-GB")
    page.goto(f"{served.dev.url}/#/runs/{served.runs['done']}")
    expect(page.locator(".o-facts dd", has_text="ago").first).to_contain_text(
        re.compile(r"\d\d:\d\d:\d\d (GMT\+5:30|IST)")
    )
    title = re.compile(r"(GMT\+5:30|IST) = 20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
    expect(page.locator(".entry time").first).to_have_attribute("title", title)
    browser.close(page)


@pytest.mark.parametrize(("status", "is_filled"), [("idle", False), ("cancelled", True), ("waiting", True)])
def test_statuses_of_one_colour_have_dots_of_two_kinds(
    served: Served, page: Page, status: str, is_filled: bool
) -> None:
    page.goto(f"{served.dev.url}/#/runs?status={status}")
    for place in (".runs .status i", f".chips .is-{status} i"):
        assert (page.locator(place).first.evaluate(DOT) != NONE) is is_filled


def test_the_inbox_tells_runs_apart_by_their_tags(served: Served, page: Page) -> None:
    page.goto(f"{served.dev.url}/#/inbox")
    expect(page.locator(".inbox li .tags .tag").filter(has_text="team=shop")).to_have_count(1)


def test_a_workflow_that_is_paused_says_so_in_the_list_of_workflows(served: Served, page: Page) -> None:
    served.dev.call("POST", "/workflows/trip/pause", {"by": "ana"})
    page.goto(f"{served.dev.url}/#/workflows")
    expect(page.locator(".tiles .card", has_text="trip").locator("header .status")).to_have_text("paused")
    expect(page.locator(".tiles .card", has_text="launch").locator("header .status")).to_have_count(0)
    served.dev.call("POST", "/workflows/trip/unpause", {})


def test_the_branches_of_a_function_are_named_by_what_opened_them_alone(served: Served, page: Page) -> None:
    page.goto(f"{served.dev.url}/#/runs/{served.runs['function']}")
    expect(page.locator(".branches h2")).to_have_text("Branches 3 of ask")


def test_the_bar_on_top_fits_the_narrowest_screens(served: Served, page: Page) -> None:
    page.set_viewport_size({"width": 320, "height": 640})
    for place in ("runs", "inbox", "workflows", f"runs/{served.runs['failed']}"):
        page.goto(f"{served.dev.url}/#/{place}")
        expect(page.locator("main h1")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") == 320
