"""The console in a headless Chromium: what a person does with runs that ended, and with many at once."""

from __future__ import annotations

import json
import re
from urllib.parse import quote

from playwright.sync_api import Page, Route, expect

from tests.console.conftest import Served
from tests.console.kit import look_back, start


def test_all_runs_that_fit_are_counted_and_then_acted_on_together(served: Served, page: Page) -> None:
    for _ in range(3):
        start(served.dev, "haggle", {"item": "rug"}, tags={"made": "together"})
    page.goto(f"{served.dev.url}/#/runs?tag={quote('made=together')}")
    expect(page.locator(".spark figcaption")).to_contain_text("3 runs")
    page.get_by_role("button", name="Act on all").click()
    page.locator("dialog select").first.select_option("cancel")
    line = page.locator("dialog .command code")
    expect(line).to_contain_text("stepwell batch cancel --tag made=together --dry-run")
    page.get_by_role("button", name="Only count").click()
    expect(page.locator(".told.is-done")).to_contain_text("3 runs fit. Nothing was changed.")
    page.get_by_label("Count them only").uncheck()  # and now in earnest
    expect(line).not_to_contain_text("--dry-run")
    page.locator("dialog button[type=submit]").click()
    expect(page.locator(".told.is-done")).to_contain_text("Done. 3 of 3 runs changed.")
    page.keyboard.press("Escape")
    expect(page.locator(".runs .status", has_text="cancelled")).to_have_count(3)


def test_a_failed_run_goes_on_as_a_new_one_that_keeps_what_was_completed(served: Served, page: Page) -> None:
    page.goto(f"{served.dev.url}/#/runs/{served.runs['failed']}")
    page.get_by_role("button", name="Redrive").click()
    page.get_by_label("From this step").select_option("ship")
    page.get_by_label("Your name").fill("ana")
    expect(page.locator("dialog .command code")).to_have_text(
        f"stepwell redrive {served.runs['failed']} --from ship --by ana"
    )
    page.locator("dialog button[type=submit]").click()
    page.locator(".told.is-done a").click()
    expect(page.locator(".crumbs")).to_contain_text("redrive of")
    assert served.runs["failed"] not in page.locator("h1").inner_text()
    expect(page.locator(".node.is-completed", has_text="approve")).to_have_count(1)


def test_a_run_that_was_rolled_back_in_part_offers_no_redrive(served: Served, page: Page) -> None:
    """The API refuses one: some of its steps are undone, and others are not."""

    def rolled_back(route: Route) -> None:
        answer = route.fetch()
        if answer.status == 304:  # the page looked again, and nothing had changed
            route.fulfill(response=answer)
        else:
            route.fulfill(response=answer, json={**answer.json(), "outcome": "partial_rollback"})

    run_id = served.runs["failed"]
    page.route(f"**/runs/{run_id}", rolled_back)
    page.goto(f"{served.dev.url}/#/runs/{run_id}")
    expect(page.get_by_role("button", name="Run again")).to_be_visible()
    expect(page.get_by_role("button", name="Redrive")).to_have_count(0)


def test_a_run_is_started_again_from_its_own_page(served: Served, page: Page) -> None:
    page.goto(f"{served.dev.url}/#/runs/{served.runs['trip']}")
    page.get_by_role("button", name="Run again").click()
    expect(page.locator("dialog .command code")).to_have_text(f"stepwell rerun {served.runs['trip']}")
    page.locator("dialog button[type=submit]").click()
    page.locator(".told.is-done a").click()
    expect(page.locator(".crumbs")).to_contain_text("rerun of")


def test_a_slider_goes_through_the_log_and_shows_what_each_record_changed(served: Served, page: Page) -> None:
    page.goto(f"{served.dev.url}/#/runs/{served.runs['done']}")
    look_back(page)
    page.get_by_label("Record", exact=True).fill("0")
    expect(page.locator(".changes li.is-add", has_text="state")).to_contain_text("A-1002")
    expect(page.locator(".moment .node.is-completed")).to_have_count(1)
    page.get_by_role("button", name="One record on").click()
    expect(page.locator(".moment .node.is-waiting")).to_contain_text("approve")
    expect(page.locator(".moments output")).to_contain_text("1 of")


def test_where_the_api_forks_runs_the_slider_offers_it_with_an_edited_value(served: Served, page: Page) -> None:
    """What is left as it was is not sent. The route is played here: an API says itself whether it has it."""
    sent: list[object] = []

    def fork(route: Route) -> None:
        sent.append(route.request.post_data_json)
        route.fulfill(status=201, json={"run_id": "run_new", "status": "pending"})

    run_id = served.runs["failed"]
    page.route("**/openapi.json", lambda route: route.fulfill(json={"paths": {"/runs/{run_id}/fork": {"post": {}}}}))
    page.route("**/fork", fork)
    page.goto(f"{served.dev.url}/#/runs/{run_id}")
    look_back(page)
    page.get_by_label("Record", exact=True).fill("1")
    expect(page.locator(".moments output")).to_have_text(re.compile("^1 of"))
    expect(page.locator(".moment .node.is-waiting")).to_contain_text("approve")
    page.get_by_role("button", name="Fork from here").click()
    state = page.get_by_label("State before this record")
    expect(state).to_have_value(re.compile("A-1003"))
    state.fill(json.dumps({**json.loads(state.input_value()), "limit": 500}))
    expect(page.locator("dialog .command code")).to_have_text(
        f"stepwell fork {run_id} --at 1 --state '{{\"limit\":500}}'"
    )
    page.get_by_role("button", name="Fork the run").click()
    expect(page.locator(".told.is-done a")).to_have_attribute("href", "#/runs/run_new")
    assert sent == [{"at": 1, "by": "", "state": {"limit": 500}}]


def test_a_failed_run_goes_on_with_an_edited_value(served: Served, page: Page) -> None:
    """From the record that failed: what was completed is kept, and the step that failed gets another amount."""
    page.goto(f"{served.dev.url}/#/runs/{served.runs['failed']}")
    look_back(page)
    expect(page.locator(".moment .node.is-failed")).to_contain_text("ship")
    page.get_by_role("button", name="Fork from here").click()
    given = page.get_by_label("Input, as JSON")
    given.fill(json.dumps({**json.loads(given.input_value()), "amount": 40}))
    expect(page.locator("dialog .command code")).to_contain_text('"amount":40')
    page.get_by_role("button", name="Fork the run").click()
    page.locator(".told.is-done a").click()
    expect(page.locator(".title .status")).to_have_text("completed")
    expect(page.locator(".crumbs")).to_contain_text("fork of")
    rows = page.locator(".timeline .row")
    expect(rows.filter(has_text="check")).to_contain_text("before this run")  # the other run did it
    expect(rows.filter(has_text="ship").locator(".track i").first).to_be_attached()
