"""The console in a headless Chromium, on the dev server: what a person sees and does."""

from __future__ import annotations

import re
import signal
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from tests.console.chromium import Chromium
from tests.console.conftest import Served
from tests.console.kit import DEMO, HOSTILE, open_anew, start
from tests.local.kit import Dev, until

LETTERS = 1000  # of the wide fork
AT_ONCE_MS = 8000  # a page with a feed looks by itself after 16 s and later
AXE = Path(__file__).parents[2] / "console" / "node_modules" / "axe-core" / "axe.min.js"


def test_the_list_shows_runs_with_counts_and_keeps_its_filters_in_the_url(served: Served, page: Page) -> None:
    page.goto(served.dev.url)
    expect(page.locator(".runs tbody tr")).to_have_count(len(served.runs))
    page.get_by_role("button", name=re.compile("^failed")).click()
    expect(page.locator(".runs tbody tr")).to_have_count(1)
    assert "status=failed" in page.url
    page.goto(f"{served.dev.url}/#/runs?tag={quote('team=ops')}")
    expect(page.locator(".c-run a")).to_have_attribute("title", served.runs["launch"])
    page.goto(f"{served.dev.url}/#/runs?waiting_for=approval&workflow=survey")
    expect(page.locator(".c-run a")).to_have_attribute("title", served.runs["small"])


def test_a_new_run_appears_in_the_list_by_itself(served: Served, page: Page) -> None:
    page.goto(f"{served.dev.url}/#/runs?tag={quote('made=later')}")
    expect(page.get_by_text("No run fits")).to_be_visible()
    start(served.dev, "launch", {}, tags={"made": "later"}, create_only=True)
    expect(page.locator(".runs tbody tr")).to_have_count(1)


def test_a_long_list_comes_in_pages_by_cursor(served: Served, page: Page) -> None:
    """A page has an address of its own, and the way back is the browser's."""
    for _ in range(53):
        start(served.dev, "launch", {}, tags={"made": "many"}, create_only=True)
    page.goto(f"{served.dev.url}/#/runs?tag={quote('made=many')}")
    expect(page.locator(".runs tbody tr")).to_have_count(50)
    page.get_by_role("link", name="Older runs").click()
    expect(page.locator(".runs tbody tr")).to_have_count(3)
    assert "cursor=" in page.url
    page.go_back()
    expect(page.locator(".runs tbody tr")).to_have_count(50)


def test_the_list_names_the_error_of_a_run_that_failed(served: Served, page: Page) -> None:
    page.goto(f"{served.dev.url}/#/runs?status=failed")
    row = page.locator(".runs tbody tr", has=page.locator(f"a[href$='{served.runs['failed']}']"))
    expect(row.locator(".c-where")).to_have_text("ship · ConnectionError")


def test_a_failed_run_shows_the_sentence_the_attempts_and_the_users_traceback(served: Served, page: Page) -> None:
    page.goto(f"{served.dev.url}/#/runs/{served.runs['failed']}")
    expect(page.locator(".why p")).to_contain_text("failed at ship")
    expect(page.get_by_label("Traceback")).to_contain_text('raise ConnectionError("the carrier does not answer")')
    expect(page.locator(".node.is-failed")).to_contain_text("ship")
    expect(page.locator(".node.is-failed .badge")).to_have_text(re.compile("^3"))
    expect(page.locator(".timeline .row", has_text="ship").locator("i.is-failed")).to_have_count(3)
    page.locator(".node.is-failed").click()
    expect(page.locator(".entry")).to_have_count(9)  # three times started, failed and so on, and the run's end
    assert "step=ship" in page.url


def test_a_wide_fork_is_one_node_with_counts_whose_branches_open_on_demand(served: Served, page: Page) -> None:
    """A branch's own history is one click away, and one URL."""
    page.goto(f"{served.dev.url}/#/runs/{served.runs['fork']}")
    expect(page.locator(".node", has_text="read").locator(".kind")).to_have_text("50 failed, 950 completed")
    expect(page.locator(".branches li")).to_have_count(50)
    page.get_by_label("Status of branches").select_option("failed")
    seventh = page.locator(".branches li", has=page.get_by_role("button", name="7", exact=True))
    expect(seventh.locator(".where")).to_have_text("ValueError")
    seventh.locator(".item").click()  # anywhere on the row
    expect(page.locator(".branches .failure")).to_contain_text("letter 7 cannot be read")
    expect(page.locator(".history h2")).to_contain_text("of branch 0/")
    assert "token=0" in page.url


def test_an_order_goes_from_its_form_through_its_approval_to_its_end(served: Served, page: Page) -> None:
    """Each action asks, shows its command line, and what it did."""
    page.goto(f"{served.dev.url}/#/runs?workflow=order")
    page.get_by_role("button", name="Start a run").click()
    page.get_by_label("order_id").fill("A-2000")
    page.get_by_label("amount").fill("20")
    expect(page.locator("dialog .command code")).to_have_text(
        'stepwell run order -i \'{"order_id":"A-2000","amount":20,"currency":"EUR"}\''
    )
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page.locator(".title .status")).to_have_text("waiting")
    run_id = page.locator("h1").inner_text()
    page.keyboard.press("a")
    page.get_by_label("Your name").fill("ana")
    expect(page.locator("dialog .command code")).to_have_text(f"stepwell approve {run_id} --by ana")
    page.locator("dialog button[type=submit]").click()
    expect(page.locator(".told.is-done")).to_be_visible()
    page.get_by_role("button", name="Close", exact=True).last.click()
    expect(page.locator(".node.is-waiting")).to_contain_text("payment")
    page.get_by_role("button", name="Send event").click()
    page.get_by_label("Name").fill("payment.received")
    page.locator("dialog button[type=submit]").click()
    expect(page.locator(".told.is-done")).to_be_visible()
    expect(page.locator(".title .status")).to_have_text("completed")


def test_a_start_takes_tags_and_an_id_or_an_idempotency_key_below_more(served: Served, page: Page) -> None:
    def open_form(nights: str) -> None:
        page.goto(f"{served.dev.url}/#/runs?workflow=trip")
        page.get_by_role("button", name="Start a run").click()
        page.get_by_label("name", exact=True).fill("Ana")
        page.get_by_label("class").select_option("business")
        page.get_by_label("nights").fill(nights)
        expect(page.get_by_label("Run id")).to_be_hidden()
        page.locator("dialog summary", has_text="More").click()

    open_form("3")
    page.get_by_role("button", name="Add a name").click()
    page.get_by_label("Name 1").fill("customer")
    page.get_by_label("Value of customer").fill("acme")
    page.get_by_label("Run id").fill("trip-77")
    expect(page.get_by_label("Idempotency key")).to_be_disabled()
    expect(page.locator("dialog .command code")).to_contain_text("--tag customer=acme --id trip-77")
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page.locator("h1")).to_have_text("trip-77")
    expect(page.locator(".o-facts .tag", has_text="customer=acme")).to_be_visible()
    for nights, told in (("3", ""), ("4", "this idempotency key started another run")):
        open_form(nights)
        page.get_by_label("Idempotency key").fill("key-77")
        expect(page.locator("dialog .command code")).to_contain_text("--key key-77")
        page.get_by_role("button", name="Start", exact=True).click()
        shown = page.get_by_role("alert") if told else page.locator(".title .status")
        expect(shown).to_contain_text(told or "completed")
    page.get_by_label("Idempotency key").fill("→")
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("characters that an HTTP header cannot carry")


def test_a_refused_action_says_why(served: Served, page: Page) -> None:
    page.goto(f"{served.dev.url}/#/runs?workflow=order")
    page.get_by_role("button", name="Start a run").click()
    page.get_by_label("amount").fill("1")
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("order_id")


def test_a_cancelled_run_says_who_cancelled_it_and_why(served: Served, page: Page) -> None:
    run_id = start(served.dev, "order", {"order_id": "A-3", "amount": 1})
    page.goto(f"{served.dev.url}/#/runs/{run_id}")
    page.get_by_role("button", name="Cancel", exact=True).click()
    page.get_by_label("Reason").fill("not wanted")
    page.get_by_label("Your name").fill("ben")
    page.get_by_role("button", name="Cancel the run").click()
    expect(page.locator(".title .status")).to_have_text("cancelled")
    expect(page.locator(".card", has_text="Cancelled by")).to_contain_text("ben")


def test_a_run_is_paused_and_goes_on_from_its_own_page(served: Served, page: Page) -> None:
    """The page says who paused it and why; what is answered meanwhile counts when it goes on."""
    run_id = start(served.dev, "order", {"order_id": "A-5", "amount": 1})
    until(lambda: served.dev.status(run_id) == "waiting", "it waits")
    page.goto(f"{served.dev.url}/#/runs/{run_id}")
    page.get_by_role("button", name="Pause", exact=True).click()
    page.get_by_label("Reason").fill("stocktaking")
    page.get_by_label("Your name").fill("ana")
    expect(page.locator("dialog .command code")).to_have_text(f"stepwell pause {run_id} --reason stocktaking --by ana")
    page.locator("dialog button[type=submit]").click()
    page.get_by_role("button", name="Close", exact=True).last.click()
    expect(page.locator(".title .status")).to_have_text("paused")
    expect(page.locator(".why")).to_contain_text(re.compile("paused by ana since .*: stocktaking"))
    expect(page.get_by_role("button", name="Pause", exact=True)).to_have_count(0)
    page.get_by_role("button", name="Unpause", exact=True).click()
    page.locator("dialog button[type=submit]").click()
    expect(page.locator(".told.is-done")).to_be_visible()
    expect(page.locator(".title .status")).to_have_text("waiting")


def test_the_inbox_answers_by_the_keyboard(served: Served, page: Page) -> None:
    """A rejection takes three keys and a reason; the next one moves up."""
    run_id = start(served.dev, "survey", {"letters": 2})
    until(lambda: served.dev.status(run_id) == "waiting", "it waits")
    page.goto(f"{served.dev.url}/#/inbox")
    row = page.locator(".inbox li", has_text=run_id[-6:])
    row.locator("button").click()
    expect(page.get_by_role("button", name="Reject", exact=True)).to_be_visible()  # what it asks has been read
    page.keyboard.press("r")
    page.get_by_label("Reason").fill("too short")
    page.keyboard.press("Enter")
    expect(page.locator(".told.is-done")).to_be_visible()
    page.keyboard.press("Escape")
    expect(row).to_have_count(0)


def test_what_callers_send_is_shown_and_never_executed(served: Served, page: Page) -> None:
    page.goto(f"{served.dev.url}/#/runs/{served.runs['hostile']}")
    expect(page.locator(".o-values", has_text="Input")).to_contain_text(HOSTILE)
    for place in ("#/runs", "#/inbox", f"#/runs/{quote(HOSTILE, safe='')}", f"#/runs?tag={quote(HOSTILE, safe='')}"):
        page.goto(f"{served.dev.url}/{place}")
        page.wait_for_timeout(300)
        assert "owned" not in page.title().split(" · ")
        assert page.locator("img:not(.brand img), main script").count() == 0


def test_an_explanation_names_the_buttons_of_the_page_and_no_routes(served: Served, page: Page) -> None:
    page.goto(f"{served.dev.url}/#/runs/{served.runs['waiting']}")
    expect(page.locator(".why li", has_text="you")).to_contain_text("Approve or Reject, as the approver")
    expect(page.locator(".why")).not_to_contain_text("/runs/")
    expect(page.locator(".o-logs")).to_contain_text("Its steps have logged nothing.")


def test_no_link_that_answers_for_others_is_shown(served: Served, page: Page) -> None:
    page.goto(f"{served.dev.url}/#/runs/{served.runs['waiting']}")
    expect(page.locator(".o-values", has_text="It waits with")).to_contain_text("A-1001")
    assert "/approvals/" not in page.locator("body").inner_text()


def test_a_killed_server_is_said_to_be_away_and_the_page_goes_on_when_it_is_back(
    browser: Chromium, page: Page, tmp_path: Path
) -> None:
    """What the reader saw stays; what happened meanwhile follows from where the page stood."""
    first = Dev(DEMO, tmp_path / "data")
    run_id = start(first, "order", {"order_id": "A-1", "amount": 1})
    page.goto(f"{first.url}/#/runs/{run_id}")
    expect(page.locator(".title .status")).to_have_text("waiting")
    expect(page.locator(".entry .type", has_text="approval.requested")).to_have_count(1)
    entries = page.locator(".entry").count()
    first.end(signal.SIGKILL)
    expect(page.locator(".lost")).to_contain_text("The server does not answer")
    expect(page.locator(".entry")).to_have_count(entries)
    second = Dev(DEMO, tmp_path / "data", int(first.url.rpartition(":")[2]))
    try:
        expect(page.locator(".lost")).to_have_count(0)
        second.call("POST", f"/runs/{run_id}/reject", {"by": "ana", "reason": "no"})
        expect(page.locator(".title .status")).to_have_text("failed")
        expect(page.locator(".entry .type", has_text="approval.rejected")).to_have_count(1)
    finally:
        second.end(signal.SIGKILL)


def test_a_page_at_rest_asks_nothing_and_shows_a_change_as_it_is_committed(served: Served, page: Page) -> None:
    """Nobody's open tab keeps the server busy, and nobody waits for a timer to see what happened."""
    run_id = start(served.dev, "order", {"order_id": "A-4", "amount": 1})
    asked: list[str] = []
    page.goto(f"{served.dev.url}/#/runs/{run_id}")
    expect(page.locator(".title .status")).to_have_text("waiting")
    expect(page.locator(".graph svg")).to_be_visible()
    page.wait_for_load_state("load")
    page.wait_for_timeout(5000)  # it settles after its feed has opened
    page.on("request", lambda request: asked.append(request.url))
    page.wait_for_timeout(2000)
    assert len(asked) <= 1  # the counts beside it
    served.dev.call("POST", f"/runs/{run_id}/cancel", {"by": "ana"})
    expect(page.locator(".title .status")).to_have_text("cancelled", timeout=AT_ONCE_MS)


def test_without_a_feed_a_page_asks_often_enough(served: Served, page: Page) -> None:
    """As on AWS, where a stack has one only if it is asked for."""
    page.route("**/stream*", lambda route: route.fulfill(status=404, json={"status": 404, "title": "no feed"}))
    run_id = start(served.dev, "order", {"order_id": "A-5", "amount": 1})
    page.goto(f"{served.dev.url}/#/runs/{run_id}")
    expect(page.locator(".title .status")).to_have_text("waiting")
    served.dev.call("POST", f"/runs/{run_id}/cancel", {"by": "ana"})
    expect(page.locator(".title .status")).to_have_text("cancelled", timeout=3 * AT_ONCE_MS)


def test_the_form_of_a_function_has_what_its_code_takes(served: Served, page: Page) -> None:
    """Its parameters, with their defaults; the required ones are asked for. Its queries are there to choose from."""
    page.goto(f"{served.dev.url}/#/runs?workflow=haggle")
    page.get_by_role("button", name="Start a run").click()
    expect(page.get_by_label("limit (optional)")).to_have_value("80")
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page.get_by_label("item")).to_be_focused()
    page.get_by_label("item").fill("stool")
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page.locator(".title .status")).to_have_text("waiting")
    page.locator("summary", has_text="More").click()
    page.get_by_role("button", name="Query").click()
    page.get_by_role("group", name="The function's queries").get_by_role("button", name="offers").click()
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(page.locator(".told")).to_contain_text("stool")


def test_a_function_answers_a_query_and_takes_an_update(served: Served, page: Page) -> None:
    """What a handler refuses is shown as its error, and the run can be terminated from the same place."""
    run_id = start(served.dev, "haggle", {"item": "cup"})
    page.goto(f"{served.dev.url}/#/runs/{run_id}")
    expect(page.locator(".title .status")).to_have_text("waiting")
    expect(page.locator(".node", has_text="ask")).to_contain_text("3 completed")
    expect(page.locator(".branches .item")).to_have_text(["90", "84.5", "97"])  # what each brought
    expect(page.get_by_role("button", name="Back to the fork")).to_have_count(0)  # that of one task is none

    def ask(button: str, name: str, given: str = "") -> None:
        page.locator(".menu summary").click()
        page.get_by_role("button", name=button, exact=True).click()
        page.get_by_label("Name, as in").fill(name)
        if given:
            page.get_by_label("Input, as JSON").fill(given)
        page.locator("dialog button[type=submit]").click()

    ask("Query", "offers")
    expect(page.locator(".told.is-done")).to_contain_text("limit")
    page.keyboard.press("Escape")
    ask("Update", "nonsense")
    expect(page.get_by_role("alert")).to_contain_text("nonsense")
    page.keyboard.press("Escape")
    ask("Update", "offer", '{"price": 81}')
    expect(page.locator(".told.is-done")).to_contain_text("output")
    page.keyboard.press("Escape")
    expect(page.locator(".o-values", has_text="State")).to_contain_text("81")
    page.locator(".menu summary").click()
    page.get_by_role("button", name="Terminate", exact=True).click()
    page.get_by_label("Reason").fill("too dear")
    page.locator("dialog button[type=submit]").click()
    expect(page.locator(".title .status")).to_have_text("failed")


def test_a_form_has_a_field_for_each_part_of_an_input(served: Served, page: Page) -> None:
    """Objects, lists, choices, numbers and defaults; what is left empty is left out."""
    page.goto(f"{served.dev.url}/#/runs?workflow=trip")
    page.get_by_role("button", name="Start a run").click()
    page.get_by_label("name", exact=True).fill("Ana")
    page.get_by_label("class").select_option("business")
    page.get_by_label("nights").fill("3")
    page.get_by_role("button", name="Add one").click()
    page.get_by_label("stops 1", exact=True).fill("Lisbon")
    expect(page.locator("dialog .command code")).to_have_text(
        'stepwell run trip -i \'{"traveller":{"name":"Ana"},"class":"business","nights":3,"insured":true,'
        '"stops":["Lisbon"]}\''
    )
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page.locator(".title .status")).to_have_text("completed")


def test_workflows_show_their_graph_their_version_and_how_their_runs_are(served: Served, page: Page) -> None:
    page.goto(f"{served.dev.url}/#/workflows")
    expect(page.locator(".tiles .card")).to_have_count(5)
    page.get_by_role("link", name="survey", exact=True).click()
    expect(page.locator(".node")).to_have_count(5)
    expect(page.locator(".edge", has_text="each {{ state.collect }}")).to_have_count(1)


def test_a_workflow_shows_its_versions_and_why_runs_failed(served: Served, page: Page) -> None:
    page.goto(f"{served.dev.url}/#/workflows/order")
    expect(page.locator(".versions")).to_contain_text("deployed")
    failures = page.locator(".card", has_text="Failures").locator(".groups li", has_text="ConnectionError at ship")
    expect(failures).to_contain_text("the carrier does not answer")
    failures.get_by_role("link", name=re.compile("^[0-9]+ runs?$")).click()
    expect(page.locator(f".c-run a[title='{served.runs['failed']}']")).to_be_visible()
    expect(page.locator(f".c-run a[title='{served.runs['done']}']")).to_have_count(0)
    page.get_by_role("button", name="failed alike").click()
    expect(page.locator(f".c-run a[title='{served.runs['done']}']")).to_be_visible()


def test_limits_tell_who_has_a_permit_and_who_waits_for_one(served: Served, page: Page) -> None:
    page.goto(f"{served.dev.url}/#/workflows")
    limit = page.locator(".card", has_text="Limits").locator("li", has_text="carrier")
    expect(limit).to_contain_text("2 at once, 60 in 1 min")
    limit.get_by_text("0 under way, 0 waiting").click()
    expect(limit).to_contain_text("Waiting: none")


def test_a_pasted_definition_is_checked_and_drawn(served: Served, page: Page) -> None:
    page.goto(f"{served.dev.url}/#/workflows")
    page.get_by_role("link", name="Check a definition").click()
    page.get_by_label("Definition").fill("workflow: a\nnodes:\n  go: {wiat: {for: approval}}\n")
    page.get_by_role("button", name="Check", exact=True).click()
    expect(page.locator(".problems")).to_contain_text("unknown key `wiat`")
    expect(page.locator(".problems code").first).to_contain_text("3:")
    page.get_by_label("Definition").fill("workflow: a\nnodes:\n  go: {wait: {for: approval}}\n")
    page.get_by_role("button", name="Check", exact=True).click()
    expect(page.locator(".node")).to_contain_text("waits: approval")
    simulated = page.locator(".card", has_text="Simulation")
    expect(simulated).to_contain_text(re.compile(r"[1-9]\d* runs"))  # up to 100: it stops after a second
    expect(simulated).to_contain_text("on Step Functions")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(served: Served, browser: Chromium, scheme: str) -> None:
    """On every page and in a dialog; in the dark only colours can differ."""
    if not AXE.exists():
        pytest.skip("axe-core is not installed: uv run python console/build.py")
    is_dark = scheme == "dark"
    page = browser.open(color_scheme="dark" if is_dark else "light", bypass_csp=True)
    page.add_init_script(path=AXE)
    found: list[str] = []
    runs = ("failed", "fork") if is_dark else ("waiting", "failed", "fork", "launch", "function")
    for place in [
        "runs",
        "inbox",
        "workflows",
        "workflows/survey",
        "check",
        "nowhere",
        "runs/none",
        *(f"runs/{served.runs[name]}" for name in runs),
    ]:
        open_anew(page, f"{served.dev.url}/#/{place}")
        page.locator(".card, .runs, .check, .empty").first.wait_for()
        page.wait_for_timeout(300)
        found += violations(page, place, is_dark)
    page.goto(f"{served.dev.url}/#/runs")
    page.get_by_role("button", name="Start a run").click()
    found += violations(page, "dialog", is_dark)
    browser.close(page)
    assert found == []


def violations(page: Page, place: str, is_dark: bool) -> list[str]:
    only = {"runOnly": ["color-contrast"]} if is_dark else {}
    results = page.evaluate("options => axe.run(options)", {"resultTypes": ["violations"], **only})
    assert results["passes"], "axe looked at nothing"
    return [
        f"{place}: {one['id']}: {one['nodes'][0]['html'][:160]} {one['nodes'][0]['failureSummary'][:200]}"
        for one in results["violations"]
    ]
