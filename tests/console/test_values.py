"""Values that are too large for an answer: the page shows their size, and reads them when it is asked to."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.console.chromium import Chromium
from tests.console.kit import reaches, start
from tests.local.kit import Dev

LARGE = 6_000_000
FLOW = """
workflow: scan
nodes:
  read: {run: python:scans.read, timeout: 20s, transitions: [{to: check}]}
  check: {wait: {for: approval}}
"""
STEPS = f"""
def read():
    return {{"page": "the end of it" + "x" * {LARGE}}}
"""
FORGED = {"large": {"bytes": 7, "link": "https://evil.example/"}}


@pytest.fixture(scope="module")
def dev(browser: Chromium, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dev]:
    place: Path = tmp_path_factory.mktemp("values")
    (place / "workflows").mkdir()
    (place / "workflows" / "scan.yaml").write_text(FLOW)
    (place / "workflows" / "scans.py").write_text(STEPS)
    dev = Dev(place / "workflows", place / "data")
    yield dev
    dev.end(signal.SIGKILL)


def test_a_large_value_is_shown_as_its_size_and_read_or_saved_on_demand(dev: Dev, page: Page) -> None:
    run_id = reaches(dev, start(dev, "scan", {}), "waiting")
    page.goto(f"{dev.url}/#/runs/{run_id}")
    large = page.locator(".o-values", has_text="State").locator(".large")
    expect(large).to_contain_text("6.0 MB")
    with page.expect_download() as saved:
        large.get_by_role("button", name="download").click()
    assert saved.value.suggested_filename == "state-read.json"
    assert len(json.loads(saved.value.path().read_text())["page"]) > LARGE
    large.get_by_role("button", name="show").click()
    expect(page.locator(".o-values", has_text="State")).to_contain_text("the end of it")
    expect(page.get_by_role("button", name="characters more").first).to_be_visible()
    expect(page.locator(".entry", has_text="step.completed").locator(".peek")).to_contain_text("6.0 MB")


def test_a_value_that_looks_like_a_large_one_is_data(dev: Dev, page: Page) -> None:
    run_id = reaches(dev, start(dev, "scan", FORGED), "waiting")
    page.goto(f"{dev.url}/#/runs/{run_id}")
    expect(page.locator(".o-values", has_text="Input")).to_contain_text("https://evil.example/")
    expect(page.locator(".o-values", has_text="Input").locator(".large, a")).to_have_count(0)
