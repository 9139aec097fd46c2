"""Takes a picture of each page in light, dark and on a phone, into `dist/pictures`.

uv run python -m tests.console.pictures            # all of them
uv run python -m tests.console.pictures failed     # by name
uv run python -m tests.console.pictures --docs     # those of the documentation, into docs/_static
"""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Page

from tests.console.chromium import Chromium, browsing, chromium
from tests.console.kit import DEMO, furnish, start
from tests.console.rich import furnish as rich
from tests.local.kit import Dev

FOLDER = Path(__file__).parents[2] / "dist" / "pictures"
DOCS = FOLDER.parents[1] / "docs" / "_static"
IN_DOCS = {"back": "light", "failed": "light", "fork": "dark", "inbox": "light"}
FORMS: dict[str, dict[str, Any]] = {
    "light": {"width": 1360, "height": 860, "scheme": "light"},
    "dark": {"width": 1360, "height": 860, "scheme": "dark"},
    "phone": {"width": 390, "height": 844, "scheme": "light"},
}


def pages(runs: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Returns each picture's place, and the button that is pressed there."""
    return {
        "runs": ("#/runs", ""),
        "filtered": ("#/runs?status=waiting&waiting_for=approval", ""),
        "waiting": (f"#/runs/{runs['waiting']}", ""),
        "failed": (f"#/runs/{runs['failed']}", ""),
        "done": (f"#/runs/{runs['done']}?step=ship", ""),
        "fork": (f"#/runs/{runs['fork']}", ""),
        "function": (f"#/runs/{runs['function']}", ""),
        "trip": (f"#/runs/{runs['trip']}", ""),
        "launch": (f"#/runs/{runs['launch']}", ""),
        "hostile": (f"#/runs/{runs['hostile']}", ""),
        "approve": (f"#/runs/{runs['waiting']}", "Approve"),
        "start": ("#/runs?workflow=order", "Start a run"),
        "start-trip": ("#/runs?workflow=trip", "Start a run"),
        "inbox": ("#/inbox", ""),
        "workflows": ("#/workflows", ""),
        "workflow": ("#/workflows/survey", ""),
        "check": ("#/check", "Check"),
        "back": (f"#/runs/{runs['done']}", "look back"),
        "redrive": (f"#/runs/{runs['failed']}", "Redrive"),
        "cancel": (f"#/runs/{runs['waiting']}", "Cancel"),
        "long": (f"#/runs/{runs['long']}", ""),
        "no-run-fits": ("#/runs?tag=team%3Dnobody", ""),
        "no-such-run": ("#/runs/none", ""),
        "no-such-page": ("#/nowhere", ""),
    }


def rich_pages(runs: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """The same of runs that are not simple."""
    names = ("nested", "dag", "loop", "deep", "tasks", "slow", "late", "parent", "agent", "big", "paused", "line-2",
             "redriven", "forked", "digest", "costly", "errand", "loan", "registered")  # fmt: skip
    return {
        **{f"rich-{name}": (f"#/runs/{runs[name]}", "") for name in names},
        "rich-runs": ("#/runs", ""),
        "rich-inbox": ("#/inbox", ""),
        "rich-inner": (f"#/runs/{runs['nested']}", "4 branches ▸"),
        "rich-back": (f"#/runs/{runs['dag']}", "look back"),
        "rich-form": ("#/runs?workflow=forms", "Start a run"),
        "rich-workflows": ("#/workflows", ""),
        "rich-digest-workflow": ("#/workflows/digest", ""),
        "rich-errand-workflow": ("#/workflows/errand", ""),
        "rich-lane": ("#/workflows/lane", ""),
        "rich-parent-workflow": ("#/workflows/parent", ""),
        "rich-big-workflow": ("#/workflows/big", ""),
    }


@contextmanager
def neutral(folder: Path) -> Iterator[Path]:
    """Copies what is served to a place of a short name: tracebacks show it, and pictures show those."""
    place = Path(tempfile.gettempdir()) / "shop"
    shutil.copytree(folder, place, ignore=shutil.ignore_patterns("__pycache__"))
    try:
        yield place
    finally:
        shutil.rmtree(place)


def oversize(dev: Dev) -> str:
    """A run whose names and texts are as long as they may be, in scripts that run either way."""
    order = {
        "order_id": "\u0637\u0644\u0628 \u0631\u0642\u0645 \u0661\u0662\u0663 \u05e9\u05dc\u05d5\u05dd " * 8,
        "amount": 7,
        "note": "unbroken" * 60,
    }
    tags = {f"a-rather-long-name-of-a-tag-{number}": "with-a-rather-long-value-too" * 2 for number in range(4)}
    return start(dev, "order", order, run_id="run-" + "x" * 120, tags=tags)


def show(page: Page, url: str, place: str, button: str) -> None:
    page.goto(f"{url}/{place}")
    page.reload()  # another fragment alone loads nothing
    page.wait_for_timeout(1000)  # the network is never idle: one read is held
    if button:
        page.get_by_role("button", name=button, exact=True).first.click()
        if button == "Check":
            page.locator(".card", has_text="Simulation").wait_for()
        page.wait_for_timeout(250)


def take(browser: Chromium, dev: Dev, form: str, chosen: Mapping[str, tuple[str, str]], is_docs: bool) -> None:
    page = browser.open(**_look(form))
    for name, (place, button) in chosen.items():
        show(page, dev.url, place, button)
        file = DOCS / f"console-{name}.png" if is_docs else FOLDER / f"{name}-{form}.png"
        page.screenshot(path=file, full_page=not button and not is_docs)
    browser.close(page)


def _rich(browser: Chromium, place: Path, wanted: Sequence[str]) -> None:
    dev = Dev(rich.lay_out(place / "rich"), place / "rich-data")
    try:
        chosen = {name: one for name, one in rich_pages(rich.furnish(dev)).items() if name in wanted or not wanted}
        for form in FORMS:
            take(browser, dev, form, chosen, is_docs=False)
    finally:
        dev.end(signal.SIGTERM)


def main() -> int:
    if chromium() is None:
        print("there is no Chromium: install the package `chromium-headless-shell`", file=sys.stderr)
        return 1
    is_docs = "--docs" in sys.argv[1:]
    wanted = list(IN_DOCS) if is_docs else sys.argv[1:]
    folder = DOCS if is_docs else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as data, neutral(DEMO) as demo, browsing() as browser:
        dev = Dev(demo, Path(data) / "data")
        try:
            runs = {**furnish(dev), "long": "" if is_docs else oversize(dev)}  # the docs show an ordinary day
            for form in FORMS:
                chosen = {name: one for name, one in pages(runs).items() if name in wanted or not wanted}
                if is_docs:
                    chosen = {name: one for name, one in chosen.items() if IN_DOCS[name] == form}
                take(browser, dev, form, chosen, is_docs)
            if any(name.startswith("rich") for name in wanted) or not wanted:
                _rich(browser, Path(data), wanted)
            if not is_docs and (not wanted or "empty" in wanted or "gone" in wanted):
                _without_runs_and_server(browser, Path(data))
        finally:
            dev.end(signal.SIGTERM)
    print(f"pictures: {folder}")
    return 0


def _without_runs_and_server(browser: Chromium, place: Path) -> None:
    """Pages of a server that has no run yet, and of one that is gone."""
    (place / "none").mkdir()
    dev = Dev(place / "none", place / "empty")
    pages = {}
    for form in FORMS:
        page = pages[form] = browser.open(**_look(form))
        for name in ("runs", "inbox", "workflows"):
            show(page, dev.url, f"#/{name}", "")
            page.screenshot(path=FOLDER / f"empty-{name}-{form}.png")
        show(page, dev.url, "#/runs", "")
    dev.end(signal.SIGKILL)
    for form, page in pages.items():
        page.locator(".lost").wait_for()
        page.screenshot(path=FOLDER / f"gone-{form}.png")
        browser.close(page)


def _look(form: str) -> dict[str, Any]:
    look = FORMS[form]
    return {
        "viewport": {"width": look["width"], "height": look["height"]},
        "color_scheme": "dark" if look["scheme"] == "dark" else "light",
    }


if __name__ == "__main__":
    sys.exit(main())
