"""What a page leaves out or cuts, so that it reads well."""

from __future__ import annotations

import json
import re
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import Page, Route, expect

from tests.console.conftest import Served
from tests.console.kit import look_back, reaches, start

LONG = "a message of many words " * 40
DEFINITION = """
workflow: long
timeline:
  - {name: a-name-that-is-much-too-long-for-its-node, run: python:warehouse.shelves.steps.validate_all, timeout: 10s}
"""
OUTSIDE = """() => [...document.querySelectorAll('.node')].flatMap((node) => {
  const right = node.querySelector('.box').getBoundingClientRect().right;
  const took = node.querySelector('.took')?.getBoundingClientRect().left ?? right;
  return [['.name', right], ['.kind', took]].filter(([text, most]) =>
    node.querySelector(text).getBoundingClientRect().right > most).map(([text]) => text);
})"""


def test_the_texts_of_a_node_end_within_it_in_whatever_font(served: Served, page: Page) -> None:
    page.goto(f"{served.dev.url}/#/check")
    page.get_by_label("Definition").fill(DEFINITION)
    page.get_by_role("button", name="Check", exact=True).click()
    expect(page.locator(".node .name")).to_have_text(re.compile("^a-name-.*…$"))
    expect(page.locator(".node .kind")).to_have_text(re.compile(r"^….*validate_all$"))
    assert page.evaluate(OUTSIDE) == []


def test_a_step_and_how_long_it_took_stand_side_by_side(served: Served, page: Page) -> None:
    def with_a_long_step(route: Route) -> None:
        graph = route.fetch().json()
        for node in graph["nodes"]:
            node["run"] = "python:warehouse.shelves.steps.validate_all"
        route.fulfill(json=graph)

    page.route("**/graph?format=json", with_a_long_step)
    page.goto(f"{served.dev.url}/#/runs/{served.runs['done']}")
    expect(page.locator(".node .kind", has_text="validate_all").first).to_contain_text("…")
    assert page.locator(".node .took").count() > 1
    assert page.evaluate(OUTSIDE) == []


def test_an_entry_names_whoever_wrote_it_and_nobody_if_they_gave_no_name(served: Served, page: Page) -> None:
    run_id = reaches(served.dev, start(served.dev, "order", {"order_id": "A-80", "amount": 1}), "waiting")
    assert served.dev.call("POST", f"/runs/{run_id}/approve", {})[0] == 200
    assert served.dev.call("POST", f"/runs/{run_id}/cancel", {"by": "auth0|ana"})[0] == 200
    page.goto(f"{served.dev.url}/#/runs/{run_id}")
    expect(page.locator(".entry", has_text="run.cancelled")).to_contain_text("by auth0|ana")
    expect(page.locator(".entry", has_text="approval.received")).not_to_contain_text(" by ")


def test_a_long_error_is_told_in_full_once(served: Served, page: Page) -> None:
    def with_a_long_message(route: Route) -> None:
        run = route.fetch().json()
        route.fulfill(json={**run, "result_summary": LONG, "error": {**run["error"], "message": LONG}})

    page.route(f"**/runs/{served.runs['failed']}", with_a_long_message)
    page.goto(f"{served.dev.url}/#/runs/{served.runs['failed']}")
    heights = [page.locator(place).bounding_box() for place in (".failure", ".o-facts .brief")]
    whole, brief = (box["height"] for box in heights if box is not None)
    assert brief < whole
    expect(page.locator(".o-facts .brief")).to_have_attribute("title", LONG)


def test_a_check_that_is_refused_shows_nothing_of_the_check_before_it(served: Served, page: Page) -> None:
    page.goto(f"{served.dev.url}/#/check")
    page.get_by_label("Definition").fill("workflow: nothing")
    page.get_by_role("button", name="Check", exact=True).click()
    expect(page.locator(".problems")).to_be_visible()
    page.route("**/check", lambda route: route.fulfill(status=413, json={"title": "Too large", "status": 413}))
    page.get_by_role("button", name="Check", exact=True).click()
    expect(page.locator(".empty")).to_contain_text("It cannot be checked")
    expect(page.locator(".problems")).to_have_count(0)
    page.get_by_label("Definition").fill(" ")
    expect(page.get_by_role("button", name="Check", exact=True)).to_be_disabled()


def test_the_page_of_a_function_says_where_its_graphs_are(served: Served, page: Page) -> None:
    page.goto(f"{served.dev.url}/#/workflows/haggle")
    expect(page.locator(".card", has_text="Graph").first).to_contain_text("what a run of it does")
    expect(page.locator(".graph")).to_have_count(0)


def test_the_graph_of_a_function_s_run_that_failed_ends_in_a_failure(served: Served, page: Page) -> None:
    """All of its operations may have completed: then the function's own code has failed."""

    def failed(route: Route) -> None:
        graph = route.fetch().json()
        end = {"id": "ask>end", "from": "ask", "to": "end", "stage": "", "when": None, "foreach": None, "fail": None}
        states = {**graph["states"], graph["start"]: "failed"}
        route.fulfill(json={**graph, "edges": [*graph["edges"], end], "states": states})

    page.route("**/graph?*", failed)
    page.goto(f"{served.dev.url}/#/runs/{served.runs['function']}")
    expect(page.locator(".graph .end.fails title")).to_have_text("The run fails")


def test_a_limit_of_each_key_tells_who_has_its_permits_once_the_key_is_named(served: Served, page: Page) -> None:
    runs = [{"run_id": f"run_{number:020}", "token": "0", "place": number or None} for number in range(3)]
    limit = {"name": "order", "of": "runs", "concurrency": 1, "rate_limit": None, "key": "{{ input.customer }}"}

    def line(route: Route) -> None:
        asked = parse_qs(urlsplit(route.request.url).query)
        assert asked["key"] == ["ana"]
        route.fulfill(json={**limit, "key": "ana", "under_way": runs[:1], "items": runs[1:], "next_cursor": None})

    counts = {"under_way": None, "waiting": None}
    page.route("**/limits", lambda route: route.fulfill(json={"items": [{**limit, **counts}], "next_cursor": None}))
    page.route("**/limits/order?*", line)
    page.goto(f"{served.dev.url}/#/workflows/order")
    page.get_by_label("Key of order").fill("ana")
    page.keyboard.press("Enter")
    card = page.locator(".card", has_text="Limits")
    expect(card.locator("a")).to_have_count(3)
    expect(card).to_contain_text("Under way: ")


def test_characters_that_cannot_be_seen_are_drawn_and_what_is_edited_keeps_them(served: Served, page: Page) -> None:
    """Else a right-to-left override would show one name as another."""
    order = {"order_id": "gpj\u202eexe.\u001b[31m", "amount": 1}
    run_id = reaches(served.dev, start(served.dev, "order", order), "waiting")
    page.goto(f"{served.dev.url}/#/runs/{run_id}")
    expect(page.locator(".o-values", has_text="Input")).to_contain_text(r"gpj\u202eexe.\u001b[31m")
    look_back(page)
    page.get_by_role("button", name="Fork from here").click()
    given = page.get_by_label("Input, as JSON")
    assert json.loads(given.input_value()) == order
    expect(page.locator("dialog .command code")).to_have_text(f"stepwell fork {run_id} --at 1")


def test_a_word_without_an_end_stays_within_its_card(served: Served, page: Page) -> None:
    def with_an_endless_message(route: Route) -> None:
        run = route.fetch().json()
        route.fulfill(json={**run, "error": {**run["error"], "message": "x" * 4000}, "cancel_reason": "y" * 4000})

    page.route(f"**/runs/{served.runs['failed']}", with_an_endless_message)
    page.goto(f"{served.dev.url}/#/runs/{served.runs['failed']}")
    expect(page.locator(".failure")).to_contain_text("xxx")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.locator("dd .brief", has_text="yyy").evaluate("one => one.clientHeight") < 80


def test_a_step_that_ended_as_its_run_began_is_of_this_run(served: Served, page: Page) -> None:
    """Times are of milliseconds, and a step may take none."""

    def as_it_began(route: Route) -> None:
        run = route.fetch().json()
        route.fulfill(json={**run, "started_at": run["steps"]["check"]["ended_at"]})

    page.route(f"**/runs/{served.runs['done']}", as_it_began)
    page.goto(f"{served.dev.url}/#/runs/{served.runs['done']}")
    check = page.locator(".timeline .row", has_text="check")
    expect(check.locator(".track")).to_have_count(1)
    expect(check).not_to_contain_text("before this run")
