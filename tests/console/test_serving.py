"""The console as files: who gets them, what they may do, and how large they are."""

from __future__ import annotations

import gzip
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from stepwell.api import console
from stepwell.api.conditional import etag_of, is_known
from tests.console.kit import DEMO
from tests.local.kit import Dev

SCRIPT_BYTES = 150_000
BROWSER = {"accept": "text/html,application/xhtml+xml"}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    dev = Dev(DEMO, tmp_path_factory.mktemp("serving") / "data")
    yield dev.url
    dev.end(signal.SIGKILL)


def asked(url: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 - our own server
    try:
        with urllib.request.urlopen(request, timeout=30) as reply:  # noqa: S310
            return reply.status, dict(reply.headers), reply.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, dict(error.headers), error.read()


def test_the_script_is_small(assets: Path) -> None:
    """What the browser has to fetch before the first paint, compressed as a gateway would."""
    sent = sum(len(gzip.compress((assets / name).read_bytes(), 9)) for name in ("console.js", "console.css"))
    assert sent < SCRIPT_BYTES


def test_the_page_has_no_inline_script_or_style_and_names_no_other_host(assets: Path) -> None:
    page = (assets / "index.html").read_text()
    assert "<style" not in page
    assert " style=" not in page
    assert '<script type="module" src="console/console.js"></script>' in page
    assert page.count("<script") == 1
    assert "http" not in page


def test_a_browser_gets_the_console_and_a_program_gets_a_problem(assets: Path, url: str) -> None:
    """Its policy allows scripts of this server alone, none of them inline; readers who have a file get 304."""
    status, headers, body = asked(url + "/", **BROWSER)
    assert (status, headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert b"console/console.js" in body
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert asked(url + "/")[0] == 404
    status, headers, _ = asked(url + "/console/console.js")
    assert (status, headers["content-type"]) == (200, "text/javascript; charset=utf-8")
    assert asked(url + "/console/console.js", **{"if-none-match": headers["etag"]})[::2] == (304, b"")
    assert asked(url + "/console/sources.sha256")[0] == 404
    assert asked(url + "/console/..%2Fapi%2Froutes.py")[0] == 404


def test_a_page_of_another_site_gets_nothing_of_the_console(url: str) -> None:
    """Neither by a name that resolves to this machine, nor across origins."""
    for headers in ({"host": "evil.example"}, {"origin": "https://evil.example"}):
        status, _, body = asked(url + "/", **BROWSER, **headers)
        assert status == 403
        assert b"console.js" not in body


def test_without_its_build_the_page_says_in_one_line_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Everything else works: `stepwell dev` prints the same line and serves."""
    monkeypatch.setattr(console, "BUILT", tmp_path)
    answer = console.page_for("text/html")
    assert answer.status == 503
    assert "run `uv run python console/build.py`" in answer.body
    assert "\n" not in answer.body


def test_an_answer_that_the_reader_has_is_not_sent_again(url: str) -> None:
    """Any GET has a tag; it changes with the answer, and errors have none."""
    status, headers, _ = asked(url + "/workflows")
    assert status == 200
    again, kept, body = asked(url + "/workflows", **{"if-none-match": f'"other", {headers["etag"]}'})
    assert (again, kept["etag"], body) == (304, headers["etag"], b"")
    assert asked(url + "/workflows", **{"if-none-match": '"other"'})[0] == 200
    assert "etag" not in asked(url + "/runs/none")[1]


def test_a_tag_is_that_of_the_body() -> None:
    assert etag_of("a") == etag_of("a") != etag_of("b")
    assert is_known(etag_of("a"), {"if-none-match": "*"})
    assert not is_known(etag_of("a"), {})


def test_the_types_of_the_console_are_sound() -> None:
    """The TypeScript compiler finds nothing; skipped where the console's packages cannot be installed."""
    build = Path(__file__).parents[2] / "console" / "build.py"
    done = subprocess.run(  # noqa: S603 - our own script
        [sys.executable, str(build), "--check"], capture_output=True, text=True, check=False
    )
    if "npm ci" in done.stderr:
        pytest.skip("the console's packages cannot be installed here")
    assert done.returncode == 0, done.stderr
