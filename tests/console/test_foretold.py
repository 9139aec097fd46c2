"""The dialog of a redrive, which can tell first what the new run would keep, and what it would be sent again."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, Route, expect

from tests.console.chromium import Chromium
from tests.console.conftest import Served
from tests.console.kit import reaches, start
from tests.console.test_console import AXE, violations
from tests.local.kit import Dev, until

MOVE = """
workflow: move
steps:
  - {name: plan, run: python:house.plan}
  - {name: papers, wait: {for: document, documents: [cv, payslip], timeout: 9d}, depends_on: [plan]}
  - {name: deposit, wait: {for: event, name: deposit.paid, timeout: 9d}, depends_on: [plan]}
  - {name: keys, run: python:house.plan, depends_on: [papers, deposit]}
"""
LOANS = """
workflow: loan
timeline:
  - {name: consent, wait: {for: document, documents: [NAMES], timeout: 9d}}
"""
MANY = [f"page-{number}" for number in range(12)]


@pytest.fixture(scope="module")
def moved(browser: Chromium, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A DAG and a timeline that were cancelled while they waited, with some of the documents."""
    place = tmp_path_factory.mktemp("moved")
    folder = place / "workflows"
    folder.mkdir()
    (folder / "move.yaml").write_text(MOVE)
    (folder / "loan.yaml").write_text(LOANS.replace("NAMES", ", ".join([*MANY, "last"])))
    (folder / "house.py").write_text("def plan():\n    return 'planned'\n")
    dev = Dev(folder, place / "data")
    try:
        yield Served(dev, {"move": cancelled(dev, "move", ["cv"]), "loan": cancelled(dev, "loan", MANY)})
    finally:
        dev.end(signal.SIGKILL)


def cancelled(dev: Dev, workflow: str, documents: list[str]) -> str:
    run_id = reaches(dev, start(dev, workflow, {}), "waiting")
    for name in documents:
        status, _ = dev.call("POST", f"/runs/{run_id}/events", {"name": "DOCUMENT_UPLOADED", "payload": {"name": name}})
        assert status == 202
    until(lambda: received(dev, run_id) == len(documents), "the documents came")
    dev.call("POST", f"/runs/{run_id}/cancel", {"by": "ana"})
    return reaches(dev, run_id, "cancelled")


def received(dev: Dev, run_id: str) -> int:
    _, page = dev.call("GET", f"/runs/{run_id}/history?limit=100")
    return sum(one["type"].endswith(".received") for one in page["items"])


def foretell(moved: Served, page: Page, name: str) -> None:
    page.goto(f"{moved.dev.url}/#/runs/{moved.runs[name]}")
    page.get_by_role("button", name="Redrive").click()
    page.get_by_label("Only tell what it would keep").check()
    expect(page.locator("dialog .command code")).to_have_text(f"stepwell redrive {moved.runs[name]} --dry-run")
    page.get_by_role("button", name="Only tell").click()


def listed(page: Page, name: str) -> list[str]:
    expect(page.locator(".foretold")).to_be_visible()
    part = page.locator(".foretold dl > div").filter(has=page.get_by_text(name, exact=True))
    return part.locator("li").all_inner_texts()


def test_a_redrive_tells_what_it_would_keep_and_send_again_before_it_does_it(moved: Served, page: Page) -> None:
    foretell(moved, page, "move")
    assert listed(page, "Kept") == ["plan 0/2.0"]
    assert sorted(listed(page, "Goes on at")) == ["deposit 0/2.2", "papers 0/2.1"]
    (sent,) = listed(page, "Sent again")
    assert sent.split()[0] == "cv"
    assert sent.split()[-1] == "0/2.1"
    expect(page.locator(".foretold")).to_contain_text("Nothing was changed.")
    expect(page.locator(".foretold time")).to_have_count(1)
    _, runs = moved.dev.call("GET", f"/runs?origin={moved.runs['move']}")
    assert runs["items"] == []


def test_of_a_redrive_that_runs_no_operation_again_it_is_said_what_to_do(moved: Served, page: Page) -> None:
    def own(route: Route) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, json={**answer.json(), "again": [{"token": "0", "step": ""}]})

    page.route("**/redrive", own)
    foretell(moved, page, "move")
    expect(page.locator(".foretold")).to_contain_text("mend it, or go on from a step.")


def test_of_a_long_list_a_few_are_told_and_how_many_more_there_are(moved: Served, page: Page) -> None:
    foretell(moved, page, "loan")
    told = listed(page, "Sent again")
    assert [one.split()[0] for one in told] == [*MANY[:8], "and"]
    assert told[-1] == "and 4 more"


def test_what_was_told_is_then_done_and_told_of_the_redriven_run(moved: Served, page: Page) -> None:
    """A second dry run names the run that there is."""
    foretell(moved, page, "loan")
    expect(page.locator(".foretold")).to_be_visible()
    page.get_by_label("Only tell what it would keep").uncheck()
    expect(page.locator(".foretold")).to_have_count(0)
    page.locator("dialog button[type=submit]").click()
    made = page.locator(".told.is-done a").get_attribute("href")
    page.keyboard.press("Escape")
    foretell(moved, page, "loan")
    expect(page.locator(".foretold")).to_contain_text("It is redriven already")
    expect(page.locator(".foretold a")).to_have_attribute("href", made or "")
    page.get_by_label("From this step").select_option("consent")
    page.get_by_role("button", name="Only tell").click()
    expect(page.locator(".foretold")).to_contain_text("is refused")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_where_a_redrive_is_told(moved: Served, browser: Chromium, scheme: str) -> None:
    if not AXE.exists():
        pytest.skip("axe-core is not installed: uv run python console/build.py")
    page = browser.open(color_scheme="dark" if scheme == "dark" else "light", bypass_csp=True)
    page.add_init_script(path=AXE)
    foretell(moved, page, "move")
    expect(page.locator(".foretold")).to_be_visible()
    found = violations(page, "redrive", scheme == "dark")
    browser.close(page)
    assert found == []
