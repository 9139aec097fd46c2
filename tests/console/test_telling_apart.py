"""What a page tells apart: values, times, statuses and runs that look alike."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import Page, Route, expect

from tests.console.chromium import Chromium
from tests.console.conftest import Served
from tests.console.kit import look_back, reaches, start

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


def test_the_list_tells_which_run_was_made_of_another(served: Served, page: Page) -> None:
    _, made = served.dev.call("POST", f"/runs/{served.runs['failed']}/redrive", {})
    page.goto(f"{served.dev.url}/#/runs?workflow=order")
    row = page.locator(".runs tr", has=page.locator(f"a[title='{made['run_id']}']"))
    expect(row.locator(".c-run small")).to_have_text("redrive")
    expect(row.locator(".c-run small")).to_have_attribute("title", f"Made of {served.runs['failed']}")
    first = page.locator(".runs tr", has=page.locator(f"a[title='{served.runs['failed']}']"))
    expect(first.locator(".c-run small")).to_have_count(0)


def test_the_inbox_tells_runs_apart_by_their_tags(served: Served, page: Page) -> None:
    page.goto(f"{served.dev.url}/#/inbox")
    expect(page.locator(".inbox li .tags .tag").filter(has_text="team=shop")).to_have_count(1)
    expect(page.locator(".inbox li .tags .tag").filter(has_text="note=")).to_have_count(1)
    assert page.locator(".inbox > ol").evaluate("(list) => list.scrollWidth <= list.clientWidth")  # a long one too


def test_a_workflow_that_is_paused_says_so_in_the_list_of_workflows(served: Served, page: Page) -> None:
    served.dev.call("POST", "/workflows/trip/pause", {"by": "ana"})
    page.goto(f"{served.dev.url}/#/workflows")
    expect(page.locator(".tiles .card", has_text="trip").locator("header .status")).to_have_text("paused")
    expect(page.locator(".tiles .card", has_text="launch").locator("header .status")).to_have_count(0)
    served.dev.call("POST", "/workflows/trip/unpause", {})


def test_a_node_tells_its_failed_branches_first_and_all_counts_in_its_title(served: Served, page: Page) -> None:
    page.goto(f"{served.dev.url}/#/runs/{served.runs['fork']}")
    node = page.locator(".node", has_text="read").first
    expect(node.locator(".kind")).to_have_text("1 failed, 19 completed")
    expect(node.locator("title")).to_contain_text("1 failed, 19 completed")


def test_a_failure_that_its_fork_tolerated_is_told_so_wherever_a_completed_run_shows_it(
    served: Served, page: Page
) -> None:
    page.goto(f"{served.dev.url}/#/runs/{served.runs['fork']}?step=read")
    expect(page.locator(".head .status").first).to_have_text("completed")
    expect(page.locator(".o-step .status")).to_have_text("failed, tolerated")
    expect(page.locator(".branches .status.is-tolerated")).to_have_text("failed, tolerated")
    expect(page.locator(".entry.is-tolerated", has_text="branch.failed")).to_contain_text("tolerated")
    expect(page.locator(".timeline .row", has_text="read").locator("i.is-tolerated")).not_to_have_count(0)
    expect(page.locator(".node .is-failed, .entry.is-failed, .timeline .is-failed, .status.is-failed")).to_have_count(0)
    expect(page.locator(".node", has_text="read").locator("title").first).to_contain_text("tolerated")


def test_the_branches_of_a_function_are_named_by_what_opened_them_alone(served: Served, page: Page) -> None:
    page.goto(f"{served.dev.url}/#/runs/{served.runs['function']}")
    expect(page.locator(".branches h2")).to_have_text("Branches 3 of ask")


def test_the_counts_are_shown_only_where_they_are_of_the_listed_runs(served: Served, page: Page) -> None:
    chips = page.get_by_role("group", name="Status")
    for place, is_counted in (
        ("?workflow=order", True),
        ("?tag=team%3Dshop", False),
        ("?workflow=order&tag=a%3Db", False),
    ):
        page.goto(f"{served.dev.url}/#/runs{place}")
        expect(chips.get_by_role("button", name="waiting")).to_be_visible()
        assert (chips.locator("b").count() > 0) is is_counted


def test_a_list_that_is_refused_says_what_would_be_taken(served: Served, page: Page) -> None:
    page.goto(f"{served.dev.url}/#/runs?tag=shop")
    expect(page.locator(".empty")).to_contain_text("(tag=name=value)")
    page.get_by_role("link", name="Show all runs").click()
    expect(page.locator(".runs tbody tr").first).to_be_visible()


def test_a_run_is_opened_by_its_id(served: Served, page: Page) -> None:
    page.goto(f"{served.dev.url}/#/runs")
    page.get_by_label("Run", exact=True).fill(f" {served.runs['failed']} ")
    page.keyboard.press("Enter")
    expect(page.locator(".title h1")).to_have_text(served.runs["failed"])


def test_the_run_that_the_keyboard_chose_stays_chosen_when_others_come(served: Served, page: Page) -> None:
    page.goto(f"{served.dev.url}/#/runs?workflow=launch")
    rows = page.locator(".runs tbody tr")
    expect(rows.first).to_be_visible()
    count = rows.count()
    page.keyboard.press("j")
    chosen = page.locator(".runs tr.is-chosen .c-run a")
    run_id = chosen.get_attribute("title")
    reaches(served.dev, start(served.dev, "launch", {}), "waiting")
    expect(rows).to_have_count(count + 1)
    expect(chosen).to_have_attribute("title", run_id or "")
    page.keyboard.press("Enter")
    expect(page.locator(".title h1")).to_have_text(run_id or "")


@pytest.mark.parametrize("place", [".c-run a", ".c-workflow"])
def test_a_run_that_is_opened_in_another_tab_leaves_the_list_where_it_is(
    served: Served, page: Page, place: str
) -> None:
    page.goto(f"{served.dev.url}/#/runs?status=failed")
    with page.context.expect_page() as other:
        page.locator(f".runs {place}").first.click(modifiers=["ControlOrMeta"])
    expect(other.value.locator(".title .status")).to_have_text("failed")
    assert page.url.endswith("#/runs?status=failed")


def test_every_page_fits_the_narrowest_screens(served: Served, page: Page) -> None:
    page.set_viewport_size({"width": 320, "height": 640})
    for place in ("runs", "inbox", "workflows", *(f"runs/{run_id}" for run_id in served.runs.values())):
        page.goto(f"{served.dev.url}/#/{place}")
        _fits(page, place.rpartition("/")[2])


def test_times_of_another_day_and_long_names_fit_the_narrowest_screens(served: Served, page: Page) -> None:
    def long_ago(route: Route) -> None:
        found = route.fetch().json()
        for number, entry in enumerate(found["items"]):
            entry["at"] = f"2025-11-{1 + number % 28:02}T11:22:33.456Z"
            entry["by"] = "the-one-of-all-approvers-with-the-longest-name@example.com"
        route.fulfill(json=found)

    page.route("**/history*", long_ago)
    page.set_viewport_size({"width": 320, "height": 640})
    for run_id in served.runs.values():
        page.goto(f"{served.dev.url}/#/runs/{run_id}")
        expect(page.locator(".entry time").first).to_have_text(re.compile("Nov"))
        _fits(page, run_id)


def _fits(page: Page, title: str) -> None:
    expect(page.locator("main h1")).to_have_text(re.compile(title, re.IGNORECASE))
    expect(page.locator("main .loading")).to_have_count(0)
    expect(page.locator("html")).to_have_js_property("scrollWidth", 320)  # waits for what is still being laid out
