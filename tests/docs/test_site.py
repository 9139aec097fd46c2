"""The site of docs/ builds without a warning, and its pages need nothing from another server."""

from __future__ import annotations

import re
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.console.chromium import browsing, chromium
from tests.docs.site import build

pytestmark = pytest.mark.slow

# What a browser fetches by itself. A link that a reader may follow is none of it.
FETCHED = {"script": "src", "img": "src", "iframe": "src", "link": "href", "source": "src"}
_CSS_URL = re.compile(r"url\(['\"]?(https?:)?//|@import")


class Fetched(HTMLParser):
    """Collects the addresses that a browser fetches for a page, and the files that the page links to."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.linked: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if values.get("rel") not in {"canonical", "next", "prev", "index", "search"} and tag in FETCHED:
            self.fetched.append(values.get(FETCHED[tag]) or "")
        if tag == "a":
            self.linked.append(values.get("href") or "")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs") / "site"
    built = build(folder)
    assert (built.returncode, built.stderr) == (0, "")
    return folder


@cache
def parsed(page: Path) -> Fetched:
    found = Fetched()
    found.feed(page.read_text(encoding="utf-8"))
    return found


def test_the_site_builds_without_a_broken_link_or_an_orphan(site: Path) -> None:
    assert (site / "docs" / "tutorial.html").is_file()


def test_the_root_of_the_site_leads_to_its_front_page(site: Path) -> None:
    assert "docs/index.html" in parsed(site / "index.html").linked


def test_no_page_fetches_anything_from_another_server(site: Path) -> None:
    for page in site.rglob("*.html"):
        assert [address for address in parsed(page).fetched if urlsplit(address).netloc] == [], page
    for sheet in site.rglob("*.css"):
        assert not _CSS_URL.search(sheet.read_text(encoding="utf-8")), sheet


def test_every_local_address_of_a_page_is_a_file_of_the_site(site: Path) -> None:
    missing = [
        (page.relative_to(site).as_posix(), address)
        for page in site.rglob("*.html")
        for address in {*parsed(page).fetched, *parsed(page).linked}
        if (path := urlsplit(address)).path and not path.scheme and not path.netloc
        if not (page.parent / unquote(path.path)).resolve().exists()
    ]
    assert missing == []


@pytest.mark.parametrize("width", [390, 1320, 1366, 1440, 1920])
def test_no_page_is_wider_than_its_window(site: Path, width: int) -> None:
    """A phone, and the usual widths of laptops: beside them stand both of the theme's columns."""
    if chromium() is None:
        pytest.skip("no Chromium: install the package `chromium-headless-shell`")
    with browsing() as browser:
        page = browser.open(viewport={"width": width, "height": 800})
        for name in ("deploy", "client", "reference/errors"):
            page.goto((site / "docs" / f"{name}.html").as_uri())
            assert page.evaluate("document.documentElement.scrollWidth") == width, name
