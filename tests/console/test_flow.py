"""Paused workflows, runs that gather starts, versions with their aliases, and all that waits for people."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from functools import partial

import pytest
from playwright.sync_api import Page, Route, expect

from tests.console.chromium import Chromium
from tests.console.conftest import Served
from tests.console.kit import open_anew, reaches, start
from tests.console.rich.furnish import flow, lay_out
from tests.console.test_console import AXE, violations
from tests.local.kit import Dev, until


@pytest.fixture(scope="module")
def steered(browser: Chromium, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    place = tmp_path_factory.mktemp("flow")
    dev = Dev(lay_out(place / "workflows"), place / "data")
    try:
        agent = reaches(dev, start(dev, "hiring", {"name": "Ana"}), "waiting")
        yield Served(dev, {**flow(dev), "agent": agent})
    finally:
        dev.end(signal.SIGKILL)


def send(page: Page, line: str) -> None:
    """Sends the open dialog, which shows this command line, and closes it."""
    expect(page.locator("dialog .command code")).to_have_text(line)
    page.locator("dialog button[type=submit]").click()
    expect(page.locator(".told.is-done")).to_be_visible()
    page.get_by_role("button", name="Close", exact=True).last.click()
    expect(page.locator("dialog")).to_have_count(0)


def press(page: Page, key: str) -> None:
    """Presses a key of the inbox, once what is chosen there has been read."""
    expect(page.locator(".asked footer button").first).to_be_visible()
    page.keyboard.press(key)


@pytest.mark.parametrize("place", ["workflows/errand", "workflows", "runs", "runs?workflow=errand"])
def test_pages_say_that_a_workflow_is_paused_by_whom_and_why(steered: Served, page: Page, place: str) -> None:
    page.goto(f"{steered.dev.url}/#/{place}")
    expect(page.locator(".paused")).to_contain_text("errand is paused by ana")
    expect(page.locator(".paused")).to_contain_text("the street is closed")


def test_a_page_of_another_workflow_says_nothing_of_the_pause(steered: Served, page: Page) -> None:
    page.goto(f"{steered.dev.url}/#/workflows/digest")
    expect(page.get_by_role("button", name="Pause", exact=True)).to_be_visible()
    expect(page.locator(".paused")).to_have_count(0)


def test_a_run_says_on_top_that_its_workflow_is_paused(steered: Served, page: Page) -> None:
    """It waits, and would stop before its next step."""
    page.goto(f"{steered.dev.url}/#/runs/{steered.runs['errand']}")
    expect(page.locator(".why p")).to_contain_text("Its workflow errand is paused by ana since")
    expect(page.locator(".why p")).to_contain_text("it stops before its next step. It waits at knock for approval")
    expect(page.locator(".head .paused")).to_be_visible()


def test_a_workflow_is_paused_and_goes_on_from_its_page(steered: Served, page: Page) -> None:
    page.goto(f"{steered.dev.url}/#/workflows/rollout")
    page.get_by_role("button", name="Pause", exact=True).click()
    page.get_by_label("Reason").fill("a freeze")
    page.get_by_label("Your name").fill("ben")
    send(page, "stepwell pause rollout --reason 'a freeze' --by ben")
    expect(page.locator(".paused")).to_contain_text("rollout is paused by ben")
    run_id = reaches(steered.dev, start(steered.dev, "rollout", {}), "paused")
    page.goto(f"{steered.dev.url}/#/runs/{run_id}")
    expect(page.locator(".why p")).to_contain_text("paused with its workflow rollout by ben")
    expect(page.get_by_role("button", name="Unpause", exact=True)).to_have_count(0)
    page.get_by_role("button", name="Unpause it").click()
    send(page, "stepwell unpause rollout --by ben")
    expect(page.locator(".paused")).to_have_count(0)
    expect(page.locator(".title .status")).to_have_text("waiting")


def test_all_workflows_are_paused_and_go_on_from_the_list(steered: Served, page: Page) -> None:
    page.goto(f"{steered.dev.url}/#/workflows")
    page.get_by_role("button", name="Pause all", exact=True).click()
    send(page, "stepwell pause --all")
    expect(page.locator(".paused").filter(has_text="All workflows are paused")).to_be_visible()
    expect(page.get_by_role("button", name="Pause all", exact=True)).to_have_count(0)
    page.get_by_role("button", name="Unpause all").click()
    send(page, "stepwell unpause --all")
    expect(page.locator(".paused")).to_have_count(1)


def test_a_run_that_gathers_starts_says_how_many_and_until_when(steered: Served, page: Page) -> None:
    page.goto(f"{steered.dev.url}/#/workflows/digest")
    card = page.locator(".card", has_text="Gathering starts")
    expect(card.locator("li")).to_contain_text("3 starts of at most 20")
    card.locator("li a").click()
    expect(page.locator(".why p")).to_contain_text("It gathers starts (batch: 3 starts of at most 20 so far")
    expect(page.locator(".o-facts")).to_contain_text(
        re.compile(r"3 starts of at most 20 · begins in \d+ min, or when it is full")
    )


def test_an_alias_is_shown_made_and_deleted_on_its_version(steered: Served, page: Page) -> None:
    page.goto(f"{steered.dev.url}/#/workflows/errand")
    card = page.locator(".versions")
    expect(card.locator("li")).to_contain_text("deployed")
    expect(card.locator(".alias")).to_contain_text("stable")
    expect(card.locator("li")).to_contain_text("1 open run, 1 at knock for approval")
    version = card.locator("code").get_attribute("title")
    card.get_by_role("button", name="Make an alias").click()
    page.get_by_role("textbox").fill("canary")
    send(page, f"stepwell alias errand canary --version {version}")
    expect(card.locator(".alias")).to_have_count(2)
    page.get_by_role("button", name="Delete the alias canary").click()
    send(page, "stepwell alias errand canary --drop")
    expect(card.locator(".alias")).to_have_count(1)
    assert [one["aliases"] for one in steered.dev.call("GET", "/workflows/errand/versions")[1]["items"]] == [["stable"]]


def test_the_inbox_says_what_a_run_has_cost_and_lets_it_cost_more(steered: Served, page: Page) -> None:
    run_id = steered.runs["costly"]
    page.goto(f"{steered.dev.url}/#/inbox")
    page.locator(".inbox li", has_text="costly").click()
    expect(page.locator(".asked .cost")).to_contain_text("more than its max_cost of 0.00001, and asks before polish")
    press(page, "a")
    page.get_by_label("New limit in USD").fill("0.5")
    page.get_by_label("Your name").fill("ana")
    send(page, f"stepwell approve {run_id} --by ana --data '{{\"max_cost\":0.5}}'")
    expect(page.locator(".inbox li", has_text="costly")).to_have_count(0)
    reaches(steered.dev, run_id, "completed")


def test_the_count_of_a_step_that_goes_to_itself_stands_whole_in_the_graph(steered: Served, page: Page) -> None:
    page.goto(f"{steered.dev.url}/#/runs/{steered.runs['costly']}")
    count = page.locator(".edge text", has_text=re.compile("true · [0-9]+\u00d7"))
    expect(count).to_be_visible()
    text, drawn = count.bounding_box(), page.locator(".o-graph svg").bounding_box()
    assert text
    assert drawn
    assert text["x"] + text["width"] <= drawn["x"] + drawn["width"]


def test_questions_and_missing_documents_are_answered_in_the_inbox_by_the_keyboard(steered: Served, page: Page) -> None:
    """First a candidate's message, then the two papers, one after the other."""
    run_id = steered.runs["agent"]
    page.goto(f"{steered.dev.url}/#/inbox")
    expect(page.locator(".inbox li", has_text="hiring")).to_contain_text("question")
    page.locator(".inbox li", has_text="hiring").click()
    expect(page.locator(".asked")).to_contain_text("interest")
    press(page, "a")
    page.get_by_label("Message").fill("I would like to")
    expect(page.get_by_label("From")).to_have_value("candidate")
    page.keyboard.press("Enter")
    expect(page.locator(".told.is-done")).to_be_visible()
    page.get_by_role("button", name="Close", exact=True).last.click()
    expect(page.locator("dialog")).to_have_count(0)
    expect(page.locator(".inbox li", has_text="hiring")).to_contain_text("document")
    for paper, missing in (("cv", "2 items"), ("passport", "1 item")):
        page.locator(".inbox li", has_text="hiring").click()
        expect(page.locator(".asked")).to_contain_text(f"missing{missing}")
        press(page, "a")
        expect(page.get_by_label("Document that is missing")).to_have_value(paper)
        page.get_by_label("Where it is").fill(f"https://files.example/{paper}.pdf")
        payload = json.dumps({"document": paper, "url": f"https://files.example/{paper}.pdf"}, separators=(",", ":"))
        send(page, f"stepwell event DOCUMENT_UPLOADED --payload '{payload}' --run {run_id}")
        until(partial(has_come, steered.dev, run_id, paper), f"{paper} is there")
    expect(page.locator(".inbox li", has_text="hiring")).to_have_count(0)
    assert steered.dev.status(run_id) == "completed"


def test_an_approval_and_documents_of_one_wait_are_both_answered_in_the_inbox(steered: Served, page: Page) -> None:
    """What has been answered is offered no more, and the run leaves when all has come."""
    page.goto(f"{steered.dev.url}/#/inbox")
    row = page.locator(".inbox li", has_text="loan")
    row.locator("button").click()
    buttons = page.locator(".asked footer button")
    expect(buttons).to_have_text(["Approve", "Reject", "Hand in"])
    expect(page.locator(".asked")).to_contain_text("missing2 items")
    press(page, "a")
    page.get_by_label("Your name").fill("ana")
    send(page, f"stepwell approve {steered.runs['loan']} --by ana")
    expect(buttons).to_have_text(["Hand in"])
    for paper in ("payslip", "passport"):
        expect(page.locator(".asked")).to_contain_text(paper)
        press(page, "a")
        page.get_by_label("Document that is missing").select_option(paper)
        page.get_by_label("Where it is").fill(f"https://files.example/{paper}.pdf")
        page.locator("dialog button[type=submit]").click()
        expect(page.locator(".told.is-done")).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.locator("dialog")).to_have_count(0)
        until(partial(has_left, steered.dev, steered.runs["loan"], paper), f"{paper} is there")
    expect(row).to_have_count(0)


def has_left(dev: Dev, run_id: str, paper: str) -> bool:
    run = dev.call("GET", f"/runs/{run_id}")[1]
    return run["waiting_for"] == "callback" or paper in (run["waiting_data"] or {}).get("received", ())


def test_a_callback_is_shown_as_waiting_and_as_nobodys_work(steered: Served, page: Page) -> None:
    run_id = steered.runs["registered"]
    page.goto(f"{steered.dev.url}/#/inbox")
    row = page.locator(".callbacks li", has=page.locator(f"a[title={run_id}]"))
    expect(row).to_contain_text("register")
    expect(page.locator(".inbox li", has_text=run_id[-6:])).to_have_count(0)
    url = steered.dev.call("GET", f"/runs/{run_id}")[1]["waiting_data"]["callback_url"]
    steered.dev.call("POST", url.removeprefix(steered.dev.url), {"ok": True})
    expect(row).to_have_count(0)
    page.locator(".inbox li", has_text=run_id[-6:]).locator("button").click()  # of two things, one is for people
    expect(page.locator(".asked h2")).to_have_text("title")
    expect(page.locator(".asked footer button")).to_have_text(["Answer"])


def test_a_phone_shows_who_wrote_an_entry_without_scrolling_sideways(steered: Served, page: Page) -> None:
    """An event's key and id are longer than the screen is wide."""
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{steered.dev.url}/#/runs/{steered.runs['registered']}")
    expect(page.locator(".entry .more", has_text="by event DOCUMENT_UPLOADED").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_a_key_that_is_pressed_before_the_run_is_read_counts_once_it_is(steered: Served, page: Page) -> None:
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route(re.compile(r"/runs/run_\w+$"), hold, times=1)
    page.goto(f"{steered.dev.url}/#/inbox")
    expect(page.locator(".asked")).to_contain_text("Reading")
    page.keyboard.press("a")
    until(lambda: page.wait_for_timeout(20) or held, "it asks for the run")
    expect(page.locator("dialog")).to_have_count(0)
    held[0].continue_()
    expect(page.locator("dialog")).to_be_visible()


def test_counts_that_are_bounded_say_at_least(steered: Served, page: Page) -> None:
    stats = steered.dev.call("GET", "/stats")[1] | {"at_least": ["waiting"]}
    page.route("**/stats", lambda route: route.fulfill(json=stats))
    page.goto(f"{steered.dev.url}/#/runs")
    waiting = stats["statuses"]["waiting"]["count"]
    expect(page.locator(".chips .is-waiting b")).to_have_text(f"≥ {waiting}")
    expect(page.locator(".chips .is-pending b")).not_to_contain_text("≥")
    expect(page.locator(".chips b").first).to_contain_text("≥")
    expect(page.locator("nav .count")).to_contain_text("≥")
    expect(page.locator("option[value=approval]")).to_contain_text("≥")
    page.goto(f"{steered.dev.url}/#/workflows")
    expect(page.locator(".card", has_text="errand").locator(".counts")).to_contain_text("≥")


def has_come(dev: Dev, run_id: str, paper: str) -> bool:
    run = dev.call("GET", f"/runs/{run_id}")[1]
    return paper in (run["waiting_data"] or {}).get("received", ()) or paper in run["state"].get("documentUrls", ())


def test_axe_finds_nothing_where_flow_is_shown(steered: Served, browser: Chromium) -> None:
    if not AXE.exists():
        pytest.skip("axe-core is not installed: uv run python console/build.py")
    start(steered.dev, "hiring", {"name": "Ben"})
    for is_dark in (False, True):
        page = browser.open(bypass_csp=True, color_scheme="dark" if is_dark else "light")
        page.add_init_script(path=AXE)
        found: list[str] = []
        runs = [f"runs/{steered.runs[name]}" for name in ("errand", "digest", "agent")]
        for place in ("workflows", "workflows/errand", "workflows/digest", "inbox", *runs):
            open_anew(page, f"{steered.dev.url}/#/{place}")
            page.locator(".card").first.wait_for()
            found += violations(page, place, is_dark=is_dark)
        browser.close(page)
        assert found == [], json.dumps(found, indent=1)
