"""A person without a mouse, a run that is deleted, and a server that is too busy to answer."""

from __future__ import annotations

import re

from playwright.sync_api import Locator, Page, Route, expect

from tests.console.conftest import Served
from tests.console.kit import look_back, reaches, start


def test_an_order_is_started_and_approved_by_the_keyboard_alone(served: Served, page: Page) -> None:
    page.goto(f"{served.dev.url}/#/runs?workflow=order")
    expect(page.locator(".runs tbody tr").first).to_be_visible()
    page.keyboard.press("n")
    expect(page.get_by_label("order_id")).to_be_visible()
    for label, text in (("order_id", "A-77"), ("amount", "12")):
        tab_to(page, page.get_by_label(label))
        page.keyboard.type(text)
    page.keyboard.press("Enter")
    expect(page.locator(".title .status")).to_have_text("waiting")
    page.keyboard.press("a")
    expect(page.locator("dialog h2")).to_have_text("Approve")
    page.keyboard.type("ana")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Close", exact=True).last).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("dialog")).to_have_count(0)
    expect(page.locator(".entry", has_text="approval.received")).to_contain_text("by ana")


def test_the_focus_goes_where_the_reader_goes_on(served: Served, page: Page) -> None:
    """Into a dialog's first field, and back to the menu that was left, or whose dialog was."""
    page.goto(f"{served.dev.url}/#/runs/{served.runs['waiting']}")
    menu = page.locator(".menu summary")
    menu.focus()
    for leave in ("Escape", "Enter"):
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        expect(page.locator(".menu button").first).to_be_focused()
        page.keyboard.press(leave)
        if leave == "Enter":
            expect(page.locator("dialog")).to_be_visible()
            page.keyboard.press("Escape")
            expect(page.locator("dialog")).to_have_count(0)
        expect(menu).to_be_focused()
    page.goto(f"{served.dev.url}/#/runs")
    expect(page.locator(".runs tbody tr").first).to_be_visible()  # the fragment alone has changed: the page follows
    page.keyboard.press("n")
    expect(page.get_by_label("Workflow").last).to_be_focused()


def test_a_refused_action_leaves_the_focus_on_its_button(served: Served, page: Page) -> None:
    """A button that is disabled while the server is asked loses it."""
    page.route("**/cancel", lambda route: route.fulfill(status=409, json={"title": "Busy", "status": 409, "code": "x"}))
    page.goto(f"{served.dev.url}/#/runs/{served.runs['waiting']}")
    page.get_by_role("button", name="Cancel", exact=True).click()
    page.locator("dialog button[type=submit]").click()
    expect(page.locator("dialog .told.is-refused")).to_be_visible()
    expect(page.locator("dialog button[type=submit]")).to_be_focused()


def test_an_update_that_fails_can_be_corrected_and_sent_again(served: Served, page: Page) -> None:
    run_id = served.runs["function"]
    page.goto(f"{served.dev.url}/#/runs/{run_id}")
    answers = iter([{"type": "step_input", "message": "name is missing"}, None])

    def update(route: Route) -> None:
        route.fulfill(json={"run_id": run_id, "name": "bid", "pending": False, "error": next(answers)})

    page.route("**/updates/bid?*", update)
    page.locator(".menu summary").click()
    page.get_by_role("button", name="Update", exact=True).click()
    page.get_by_label("Name, as in").fill("bid")
    given = page.get_by_label("Input, as JSON")
    for text, told in (('{"nom": 1}', "step_input"), ('{"name": 1}', "Done.")):
        given.fill(text)
        page.locator("dialog button[type=submit]").click()
        expect(page.locator("dialog .told")).to_contain_text(told)
    expect(given).to_be_disabled()


def test_what_came_of_an_action_is_in_sight_on_a_phone(served: Served, page: Page) -> None:
    """The dialog is longer than the screen, and its buttons stay at the bottom."""
    page.set_viewport_size({"width": 390, "height": 600})
    page.goto(f"{served.dev.url}/#/runs/{served.runs['done']}")
    look_back(page)
    page.get_by_role("button", name="Fork from here").click()
    page.get_by_label("Input, as JSON").fill("{")
    page.locator("dialog button[type=submit]").click()
    told, footer = page.locator("dialog .told"), page.locator("dialog footer")
    expect(told).to_contain_text("this is not JSON")
    expect(told).to_be_in_viewport(ratio=1)
    above, below = told.bounding_box(), footer.bounding_box()
    assert above is not None
    assert below is not None
    assert above["y"] + above["height"] <= below["y"]


def tab_to(page: Page, field: Locator) -> None:
    for _ in range(12):
        if field.evaluate("field => field === document.activeElement"):
            return
        page.keyboard.press("Tab")
    raise AssertionError("the keyboard does not come there")


def test_an_ended_run_is_deleted_and_the_dialog_says_so_until_it_is_closed(served: Served, page: Page) -> None:
    """The page reads the run again while the dialog is open, and is told that there is none."""
    run_id = reaches(served.dev, start(served.dev, "order", {"order_id": "A-7", "amount": 1}), "waiting")
    page.goto(f"{served.dev.url}/#/runs/{run_id}")
    expect(page.locator(".menu button", has_text="Terminate")).to_have_count(1)
    expect(page.locator(".menu button", has_text="Delete")).to_have_count(0)  # it has not ended
    served.dev.call("POST", f"/runs/{run_id}/cancel", {"by": "ana"})
    expect(page.locator(".title .status")).to_have_text("cancelled")
    page.locator("summary", has_text="More").click()
    page.get_by_role("button", name="Delete", exact=True).click()
    expect(page.locator("dialog .command code")).to_have_text(f"stepwell delete {run_id}")
    page.locator("dialog button[type=submit]").click()
    expect(page.locator(".told.is-done")).to_contain_text("Deleted 1 run.")
    with page.expect_response(re.compile(f"/runs/{run_id}$")) as answer:
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    assert answer.value.status == 404
    answer.value.finished()
    page.evaluate("new Promise(requestAnimationFrame)")  # it has been drawn
    assert page.locator(".told.is-done a").all_inner_texts() == ["All runs"]
    page.keyboard.press("Escape")
    expect(page.locator(".runs")).to_be_visible()
    assert "no such run" not in page.locator("main").inner_text()


def test_what_a_busy_server_did_not_answer_is_asked_again(served: Served, page: Page) -> None:
    """The run does not move, so nothing else would ask."""
    failures = {"history": 0, "graph": 0}

    def busy(route: Route) -> None:
        name = "graph" if "/graph" in route.request.url else "history"
        failures[name] += 1
        if failures[name] > 1:
            route.continue_()
        else:
            route.fulfill(status=502, json={"message": "Internal server error"})

    page.route(re.compile(r"/runs/run_\w+/(history|graph)"), busy)
    page.goto(f"{served.dev.url}/#/runs/{served.runs['done']}")
    expect(page.locator(".entry").first).to_be_visible()
    expect(page.locator(".node").first).to_be_visible()
    assert min(failures.values()) > 1


def test_a_page_stays_as_it_is_while_its_server_is_too_busy(served: Served, page: Page) -> None:
    run_id = served.runs["done"]
    page.goto(f"{served.dev.url}/#/runs/{run_id}")
    expect(page.locator(".entry").first).to_be_visible()
    page.route(f"**/runs/{run_id}", lambda route: route.fulfill(status=502, json={"message": "Internal server error"}))
    with page.expect_response(re.compile(f"/runs/{run_id}$")) as answer:
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    answer.value.finished()
    page.evaluate("new Promise(requestAnimationFrame)")  # it has been drawn
    assert page.locator(".title .status").all_inner_texts() == ["completed"]


def test_a_second_click_starts_no_second_run(served: Served, page: Page) -> None:
    """A function of AWS that starts takes seconds to answer."""
    held: list[Route] = []
    page.route("**/workflows/launch/runs", lambda route: held.append(route))  # noqa: PLW0108 - Playwright marks what it calls
    page.goto(f"{served.dev.url}/#/runs?workflow=launch")
    page.get_by_role("button", name="Start a run").click()
    begin = page.get_by_role("button", name="Start", exact=True)
    begin.click()
    expect(begin).to_be_disabled()
    begin.click(force=True)
    assert len(held) == 1
    held[0].fulfill(status=503, json={"title": "Busy", "status": 503, "code": "busy"})
    expect(begin).to_be_enabled()
