"""What a console must still show when runs are not simple: nested forks, DAGs, loops, tasks, forms, long lists."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator

import pytest
from playwright.sync_api import FloatRect, Locator, Page, Route, expect

from tests.console.chromium import Chromium
from tests.console.conftest import Served
from tests.console.kit import look_back, open_anew, reaches, start
from tests.console.rich.furnish import ASKED, furnish, lay_out
from tests.console.test_console import AXE, violations
from tests.local.kit import Dev


@pytest.fixture(scope="module")
def rich(browser: Chromium, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    place = tmp_path_factory.mktemp("rich")
    dev = Dev(lay_out(place / "workflows"), place / "data")
    try:
        yield Served(dev, furnish(dev))
    finally:
        dev.end(signal.SIGKILL)


def open_run(rich: Served, page: Page, name: str, **asked: str) -> None:
    more = "&".join(f"{key}={value}" for key, value in asked.items())
    page.goto(f"{rich.dev.url}/#/runs/{rich.runs[name]}" + (f"?{more}" if more else ""))


def box_of(drawn: Locator) -> FloatRect:
    found = drawn.bounding_box()
    assert found is not None
    return found


def test_a_fork_in_a_branch_is_opened_from_its_row(rich: Served, page: Page) -> None:
    """And left again; which one is open is in the URL."""
    open_run(rich, page, "nested")
    expect(page.locator(".node", has_text="shop").locator(".kind")).to_have_text("3 failed, 9 completed")
    expect(page.locator(".node.is-passed")).to_contain_text("counted")
    expect(page.locator(".branches li")).to_have_count(3)
    page.locator(".branches li", has_text="region-1").get_by_role("button", name="4 branches").click()
    expect(page.locator(".branches li")).to_have_count(4)
    expect(page.locator(".branches h2")).to_contain_text("4 of region in branch 1")
    page.reload()
    expect(page.locator(".branches .item", has_text="shop-1-2")).to_be_visible()
    page.get_by_role("button", name="Back to the fork around it").click()
    expect(page.locator(".branches li")).to_have_count(3)


def test_each_of_several_approvals_is_answered_by_its_name(rich: Served, page: Page) -> None:
    """Without it, the second answer of a person would be a repetition of the first."""
    run_id = reaches(rich.dev, start(rich.dev, "contract", {}), "waiting")
    page.goto(f"{rich.dev.url}/#/runs/{run_id}")
    for name, left in (("approval_2", ["approval"]), ("approval", [])):
        page.get_by_role("button", name="Approve", exact=True).click()
        page.get_by_label("Which approval").select_option(name)
        page.get_by_label("Who answers").select_option("ana")
        command = f"stepwell approve {run_id} --by ana --step sign/{name}"
        expect(page.locator("dialog .command code")).to_have_text(command)
        page.locator("dialog button[type=submit]").click()
        expect(page.locator(".told.is-done")).to_be_visible()
        page.keyboard.press("Escape")
        data = rich.dev.call("GET", f"/runs/{run_id}")[1]["waiting_data"] or {}
        assert list(data.get("approvals", [])) == left
    expect(page.locator(".title .status")).to_have_text("completed")


def test_each_approval_of_a_fork_is_answered_in_its_row(rich: Served, page: Page) -> None:
    run_id = reaches(rich.dev, start(rich.dev, "inventory", {"regions": 2, "shops": 2}), "waiting")
    page.goto(f"{rich.dev.url}/#/runs/{run_id}")
    row = page.locator(".branches li", has_text="region-1")
    row.get_by_role("button", name="approve").click()
    expect(page.locator("dialog .command code")).to_contain_text(re.compile(r"--step 0/\d+\.1$"))
    page.locator("dialog button[type=submit]").click()
    expect(page.locator(".told.is-done")).to_be_visible()
    page.keyboard.press("Escape")
    expect(row.locator(".status")).to_have_text("completed")
    expect(page.locator(".branches li", has_text="region-0").locator(".status")).to_have_text("waiting")


def test_a_loop_is_drawn_whole_with_how_often_it_was_gone_round(rich: Served, page: Page) -> None:
    open_run(rich, page, "loop")
    expect(page.locator(".node", has_text="draft").locator(".badge")).to_have_text("↻ 2")
    loop = page.locator(".edge", has_text="result.score < 90").locator("path")
    box, canvas = box_of(loop), box_of(page.locator(".graph svg"))
    assert box["height"] > 10
    assert canvas["x"] <= box["x"] <= canvas["x"] + canvas["width"] - box["width"]


def test_an_error_that_a_rule_took_names_the_rule(rich: Served, page: Page) -> None:
    """It is not shown as the run's end."""
    open_run(rich, page, "loop")
    card = page.locator(".card", has_text="The last error, which a rule took")
    expect(card).to_contain_text("The rule proof.diverge[0] took it, and the run went on to publish.")
    expect(card.get_by_label("Traceback")).to_contain_text("raise ValueError")
    expect(page.locator(".is-error")).to_have_count(0)
    expect(page.locator(".entry", has_text="step.failed")).to_contain_text("→ publish")


def test_a_wait_that_timed_out_is_red_on_the_timeline(rich: Served, page: Page) -> None:
    open_run(rich, page, "late")
    expect(page.locator(".why")).to_contain_text("timed out at answer")
    expect(page.locator(".timeline .row", has_text="answer").locator("i.is-failed")).to_have_count(1)


def test_the_slider_goes_through_the_records_of_branches(rich: Served, page: Page) -> None:
    """A DAG's own log has two records: what happened is in its branches."""
    open_run(rich, page, "dag")
    look_back(page)
    slider = page.get_by_label("Record", exact=True)
    expect(page.locator(".moments output")).to_have_text("7 of 7")
    expect(page.locator(".moment .node.is-waiting")).to_contain_text("agree")
    slider.fill("1")
    expect(page.locator(".moment .node.is-completed")).to_contain_text("build")
    expect(page.locator(".moment .node.is-waiting, .moment .node.is-skipped")).to_have_count(0)
    expect(page.locator(".changes")).to_contain_text(re.compile("build . output"))
    slider.fill("2")
    expect(page.locator(".moment .node.is-skipped")).to_contain_text("docs")


def test_the_slider_goes_through_the_tasks_of_a_function(rich: Served, page: Page) -> None:
    open_run(rich, page, "tasks")
    expect(page.locator(".node", has_text="first").locator(".kind")).to_have_text("waits: approval")
    look_back(page)
    slider = page.get_by_label("Record", exact=True)
    expect(slider).to_be_visible()
    slider.fill("0")
    expect(page.locator(".moment .node")).to_have_count(1)
    slider.fill(str(int(slider.get_attribute("max") or 0) - 1))
    expect(page.locator(".moment .node", has_text="fetch").locator(".kind")).to_have_text("4 completed")


def test_a_token_is_seen_to_move_along_the_rule_that_it_takes(rich: Served, page: Page) -> None:
    run_id = reaches(rich.dev, start(rich.dev, "essay", {}), "waiting")
    page.goto(f"{rich.dev.url}/#/runs/{run_id}")
    expect(page.locator(".node.is-waiting .halo")).to_be_attached()
    expect(page.locator(".live")).to_have_text("live")
    assert page.locator(".mover").count() == 0
    rich.dev.call("POST", f"/runs/{run_id}/approve", {"by": "ana"})
    page.locator(".mover").first.wait_for(state="attached")
    expect(page.locator(".title .status")).to_have_text("completed")
    expect(page.locator(".mover")).to_have_count(0)


def test_a_graph_of_300_nodes_can_be_read_and_be_seen_as_a_whole(rich: Served, page: Page) -> None:
    open_run(rich, page, "big")
    expect(page.locator(".node")).to_have_count(300)
    assert box_of(page.locator(".node").first)["width"] > 100
    assert box_of(page.locator(".graph"))["height"] < 700
    page.get_by_role("button", name="all of it").click()
    assert box_of(page.locator(".graph svg"))["height"] <= 640


def test_what_a_step_emits_and_logs_is_shown_with_the_command_for_more(rich: Served, page: Page) -> None:
    open_run(rich, page, "slow")
    logs = page.locator(".o-logs")
    for label in ("What its steps emitted", "What its steps logged and printed"):
        expect(logs.get_by_label(label).locator("li")).to_have_count(4)
        expect(logs.get_by_label(label)).to_contain_text("Clause 7 limits the liability")
    expect(logs.locator(".command code")).to_have_text(f"stepwell logs {rich.runs['slow']} --follow")


def test_lines_that_a_step_logs_appear_while_it_runs(rich: Served, page: Page) -> None:
    """A line that looks like markup is text."""
    run_id = start(rich.dev, "chatty", {"lines": 6})
    page.goto(f"{rich.dev.url}/#/runs/{run_id}")
    lines = page.get_by_label("What its steps logged and printed").locator("li")
    expect(lines.first).to_contain_text("line 0 <b>bold</b>")
    assert rich.dev.status(run_id) == "running"
    expect(lines).to_have_count(7)
    expect(lines.last).to_contain_text("warning the end is near")


def test_a_run_in_line_links_to_those_that_it_waits_for(rich: Served, page: Page) -> None:
    open_run(rich, page, "line-3")
    expect(page.locator(".why")).to_contain_text("concurrency limit of lane: at most 2 under way")
    links = [link.get_attribute("href") for link in page.locator(".why a").all()]
    assert f"#/runs/{rich.runs['paused']}" in links
    page.goto(f"{rich.dev.url}/#/workflows/lane")
    limit = page.locator(".card", has_text="Limits")
    limit.get_by_text("2 under way, 5 waiting").click()
    expect(limit.locator("a")).to_have_count(7)


def test_a_run_made_from_another_leads_to_it(rich: Served, page: Page) -> None:
    for name, kind, origin in (("redriven", "redrive", "deep"), ("forked", "fork", "loop")):
        open_run(rich, page, name)
        link = page.locator(".crumbs", has_text=f"{kind} of").locator("a").last
        expect(link).to_have_attribute("href", f"#/runs/{rich.runs[origin]}")


def test_a_run_lists_those_that_were_made_of_it(rich: Served, page: Page) -> None:
    for name, kind, made in (("deep", "redrive", "redriven"), ("loop", "fork", "forked")):
        open_run(rich, page, name)
        row = page.locator(".card", has_text="Made of this run").locator("li")
        expect(row).to_have_count(1)
        expect(row).to_contain_text(kind)
        expect(row.locator("a")).to_have_attribute("href", f"#/runs/{rich.runs[made]}")
    page.goto(f"{rich.dev.url}/#/runs?origin={rich.runs['deep']}")
    expect(page.locator(".c-run a")).to_have_attribute("title", rich.runs["redriven"])


def test_the_list_finds_the_run_of_a_key(rich: Served, page: Page) -> None:
    """A key is one of a workflow's, so its field is there where one is chosen."""
    made = [rich.dev.call("POST", "/workflows/lane/runs", {}, **{"Idempotency-Key": key})[1]["run_id"] for key in "ab"]
    page.goto(f"{rich.dev.url}/#/runs")
    expect(page.get_by_label("Key", exact=True)).to_have_count(0)
    page.locator(".filters label", has_text=re.compile("^Workflow")).locator("select").select_option("lane")
    expect(page).to_have_url(re.compile("workflow=lane"))
    expect(page.locator("tbody .c-workflow").filter(has_not_text="lane")).to_have_count(0)  # the whole list was there
    expect(page.locator(".c-run a").first).to_have_attribute("title", made[1])
    rows = page.locator(".c-run a").count()
    page.get_by_label("Key", exact=True).fill("b")
    rich.dev.call("POST", "/workflows/lane/runs", {})
    expect(page.locator(".c-run a")).to_have_count(rows + 1)  # the list has changed meanwhile
    page.keyboard.press("Enter")
    expect(page.locator(".c-run a")).to_have_count(1)
    expect(page.locator(".c-run a")).to_have_attribute("title", made[1])
    expect(page).to_have_url(re.compile("key=b"))


def test_the_inbox_keeps_what_is_chosen_and_its_answer_in_sight(rich: Served, page: Page) -> None:
    page.goto(f"{rich.dev.url}/#/inbox")
    expect(page.locator(".inbox li").nth(ASKED)).to_be_attached()
    for _ in range(ASKED - 5):
        page.keyboard.press("j")
    expect(page.locator(".inbox li.is-chosen")).to_be_in_viewport(ratio=1)
    expect(page.get_by_role("button", name="Approve")).to_be_in_viewport(ratio=1)


def test_enter_is_for_what_has_the_focus(rich: Served, page: Page) -> None:
    """The lists' own keys leave a focused button alone."""
    page.goto(f"{rich.dev.url}/#/inbox")
    page.locator(".inbox li", has_text="approval").first.click()
    page.get_by_role("button", name="Approve").focus()
    page.keyboard.press("Enter")
    expect(page.locator("dialog h2")).to_have_text("Approve")
    page.goto(f"{rich.dev.url}/#/runs")
    page.get_by_role("button", name="Start a run").focus()
    page.keyboard.press("Enter")
    expect(page.locator("dialog h2")).to_have_text("Start a run")


def test_deliveries_are_listed_and_replayed(rich: Served, page: Page) -> None:
    page.goto(f"{rich.dev.url}/#/workflows")
    refused = page.locator(".deliveries li", has_text="delivery-refused")
    expect(refused).to_contain_text("there is no key 'shop'")
    row = page.locator(".deliveries li", has_text="delivery-0003")
    row.get_by_role("button", name="replay").click()
    expect(page.locator("dialog .command code")).to_have_text("stepwell webhook replay till delivery-0003 --again")
    page.locator("dialog button[type=submit]").click()
    expect(page.locator(".told.is-done")).to_be_visible()
    page.keyboard.press("Escape")
    expect(row.locator(".tag")).to_have_text("1 replay")
    page.goto(f"{rich.dev.url}/#/workflows/parent")
    expect(page.locator(".card", has_text="Schedules")).to_contain_text("cron(0 9 ? * MON-FRI *)")


def test_a_schedule_that_would_start_no_run_says_why(rich: Served, page: Page) -> None:
    def refused(route: Route) -> None:
        answer = route.fetch()
        items = [{**one, "error": "the input has no `day`"} for one in answer.json()["items"]]
        route.fulfill(response=answer, json={"items": items, "next_cursor": None})

    page.route("**/schedules", refused)
    page.goto(f"{rich.dev.url}/#/workflows/parent")
    expect(page.locator(".card", has_text="Schedules")).to_contain_text("starts no run: the input has no `day`")


def test_a_schedule_is_paused_fired_and_unpaused(rich: Served, page: Page) -> None:
    page.goto(f"{rich.dev.url}/#/workflows/parent")
    card = page.locator(".card", has_text="Schedules").locator("li").first
    name = card.locator("b").inner_text()
    for act, line in (("pause", f"schedule pause {name} --by kim"), ("fire now", f"schedule fire {name}"),
                      ("unpause", f"schedule unpause {name} --by kim")):  # fmt: skip
        card.get_by_role("button", name=act, exact=True).click()
        if act != "fire now":
            page.get_by_label("Your name").fill("kim")
        expect(page.locator("dialog .command code")).to_have_text(f"stepwell {line}")
        page.locator("dialog button[type=submit]").click()
        expect(page.locator(".told.is-done")).to_contain_text("The new run is" if act == "fire now" else "Done.")
        page.keyboard.press("Escape")
        (expect(card).not_to_contain_text if act == "unpause" else expect(card).to_contain_text)("paused by kim")
        expect(card).to_contain_text("next in " if act == "unpause" else "no next time while it is paused")


def test_an_explanation_speaks_of_buttons_and_not_of_routes(rich: Served, page: Page) -> None:
    """Of a paused run and of a paused workflow's too."""
    for name in ("paused", "errand", "nested", "tasks", "agent", "costly", "loan", "registered", "parent", "line-4"):
        page.goto(f"{rich.dev.url}/#/runs/{rich.runs[name]}")
        expect(page.locator("h1")).to_have_text(rich.runs[name])
        expect(page.locator(".why")).to_be_visible()
        expect(page.locator(".why")).not_to_contain_text(re.compile("(POST|GET) /"))
    page.goto(f"{rich.dev.url}/#/runs/{rich.runs['paused']}")
    expect(page.locator(".why li")).to_contain_text(["Unpause"])
    page.goto(f"{rich.dev.url}/#/runs/{rich.runs['errand']}")
    expect(page.locator(".why li", has_text="Unpause its workflow, errand")).to_be_visible()


def test_older_deliveries_have_pages_and_those_of_one_source_a_list(rich: Served, page: Page) -> None:
    for number in range(25):
        rich.dev.call("POST", "/webhooks/till", {"shop": f"t{number}"}, **{"x-id": f"more-{number:04d}"})
    page.goto(f"{rich.dev.url}/#/workflows")
    card = page.locator(".deliveries")
    expect(card.locator("li code").first).to_have_text("more-0024")
    expect(card.locator("li", has_text="form-1")).to_have_count(0)
    card.get_by_role("button", name="Older deliveries").click()
    expect(card.locator("li", has_text="more-0004")).to_be_visible()
    expect(card.locator("li", has_text="more-0005")).to_have_count(0)
    expect(card.get_by_role("button", name="Older deliveries")).to_have_count(0)
    card.locator("li", has_text="form-1").get_by_role("button", name="forms").click()
    expect(card.locator("li")).to_have_count(1)
    card.get_by_role("button", name="forms ✕").click()
    expect(card.locator("li code").first).to_have_text("more-0024")


def test_a_form_has_a_field_for_every_shape_of_schema(rich: Served, page: Page) -> None:
    """References, lists of objects, one of several shapes, names of one's own, choices, constants, dates, trees."""
    page.goto(f"{rich.dev.url}/#/runs?workflow=forms")
    page.get_by_role("button", name="Start a run").click()
    dialog = page.locator("dialog")
    dialog.get_by_label("Title").fill("Lamps")
    dialog.get_by_label("day (optional)").fill("2026-01-31")
    expect(dialog.get_by_label("kind", exact=True)).to_have_value("order")
    address = dialog.get_by_role("group", name="address")
    address.get_by_label("street").fill("Long Street 1")
    address.get_by_label("city").fill("Vigo")
    dialog.get_by_label("sku").fill("lamp")
    dialog.get_by_role("group", name="lines", exact=True).get_by_role("button", name="Add one").click()
    dialog.get_by_label("sku").last.fill("shade")
    dialog.get_by_label("green").check()
    dialog.get_by_label("Kind of payment").select_option(label="Invoice")
    dialog.get_by_label("vat").fill("ES-1")
    dialog.get_by_role("button", name="Add a name").click()
    dialog.get_by_label("Name 1").fill("lamp")
    dialog.get_by_label("Value of lamp").fill("9.5")
    tree = dialog.get_by_role("group", name="tree")
    tree.get_by_role("button", name="Fill it in").click()
    tree.get_by_label("leaf").last.fill("green")
    dialog.get_by_role("button", name="Start", exact=True).click()
    expect(page.locator(".title .status")).to_have_text("waiting")
    run = rich.dev.call("GET", f"/runs/{page.locator('h1').inner_text()}")[1]
    assert run["input"] == {
        "title": "Lamps", "day": "2026-01-31", "kind": "order", "size": "m", "gift": False,
        "address": {"street": "Long Street 1", "city": "Vigo", "country": "ES"},
        "lines": [{"sku": "lamp", "count": 1}, {"sku": "shade", "count": 1}],
        "labels": ["green"], "payment": {"vat": "ES-1", "days": 30}, "prices": {"lamp": 9.5},
        "tree": {"left": {"leaf": "green"}},
    }  # fmt: skip


def test_what_is_wrong_with_an_input_stands_at_its_field(rich: Served, page: Page) -> None:
    """The first such field has the keyboard; an optional group that was begun must be whole."""
    page.goto(f"{rich.dev.url}/#/runs?workflow=forms")
    page.get_by_role("button", name="Start a run").click()
    dialog = page.locator("dialog")
    dialog.get_by_label("Title").fill("no")
    dialog.get_by_role("group", name="address").get_by_label("street").fill("Long Street 1")
    dialog.get_by_label("code (optional)").fill("wrong")
    dialog.get_by_label("sku").fill("lamp")
    dialog.get_by_label("card", exact=True).fill("4242 4242")
    dialog.get_by_role("button", name="Start", exact=True).click()
    expect(dialog.get_by_label("Title")).to_be_focused()
    wrong = dialog.locator("label", has=page.locator(".wrong"))
    expect(wrong).to_have_count(3)
    expect(wrong.filter(has_text="Title")).to_contain_text("must be longer than or equal to 3 characters")
    expect(wrong.filter(has_text="code")).to_contain_text("pattern")
    expect(wrong.filter(has_text="city")).to_contain_text("is required")


def test_axe_finds_nothing_where_much_is_shown(rich: Served, browser: Chromium) -> None:
    if not AXE.exists():
        pytest.skip("axe-core is not installed: uv run python console/build.py")
    page = browser.open(bypass_csp=True)
    page.add_init_script(path=AXE)
    found: list[str] = []
    runs = ("nested", "dag", "tasks", "loop", "deep", "slow", "big", "paused", "line-1", "parent")
    places = [f"runs/{rich.runs[name]}" for name in runs] + ["inbox", "workflows", "workflows/lane", "workflows/big"]
    for place in places:
        open_anew(page, f"{rich.dev.url}/#/{place}")
        page.locator(".card").first.wait_for()
        if place.startswith("runs/") and page.get_by_role("button", name="look back").count():
            look_back(page)
            page.locator(".moment").wait_for()
        found += violations(page, place, is_dark=False)
    page.goto(f"{rich.dev.url}/#/runs?workflow=forms")
    page.get_by_role("button", name="Start a run").click()
    page.locator("dialog form fieldset").first.wait_for()
    found += violations(page, "form", is_dark=False)
    browser.close(page)
    assert found == [], json.dumps(found, indent=1)
