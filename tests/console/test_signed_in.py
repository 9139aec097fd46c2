"""The console of a deployed stack with `auth: jwt`, at the API's own address: the emulator runs the template."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect

from stepwell.aws.emulation.deployment import deploy
from stepwell.aws.emulation.emulator import Emulator
from stepwell.cli.deploying.synthesis import synthesise
from stepwell.cli.folder.emulate import API, LIVE
from tests.console.chromium import Chromium
from tests.console.issuers import AUDIENCE, CLIENT, SecureIssuer, serving
from tests.console.kit import frames_of, is_fed, take_to_its_end
from tests.contract.live_kit import FLOW, STEPS
from tests.emulator.kit import ROOT

pytestmark = pytest.mark.slow

SECONDS = 300.0  # the emulator starts each function when it is first called
UNAUTHORIZED = 401


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureIssuer]:
    with serving(SecureIssuer(tmp_path_factory.mktemp("issuer"))) as made:
        yield made


@pytest.fixture(scope="module")
def url(browser: Chromium, issuer: SecureIssuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The API's address, as the stack's owner gives it to people."""
    data: Path = tmp_path_factory.mktemp("jwt")
    (data / "workflows").mkdir()
    (data / "workflows" / "flow.yaml").write_text(FLOW)
    (data / "workflows" / "m.py").write_text(STEPS)
    context = {"emulator": True, "folder": str(data / "workflows"), "auth": "jwt", "jwt_issuer": issuer.url,
               "jwt_audience": [AUDIENCE], "console_client_id": CLIENT}  # fmt: skip
    synthesise(ROOT, context, data / "cdk.out")
    trusting = {"SSL_CERT_FILE": str(issuer.certificate)}
    with (data / "log").open("w") as log, Emulator(data / "tmp", log, trusting) as emulator:
        (stack,) = deploy(emulator, data / "cdk.out")
        (api_id,) = (found for name, found in stack.of_type(API).items() if not LIVE.search(name))
        yield f"http://{api_id}.execute-api.localhost:{emulator.port}"


@pytest.fixture
def page(browser: Chromium) -> Iterator[Page]:
    found = browser.open(ignore_https_errors=True)  # of the issuer's own certificate
    found.set_default_timeout(SECONDS * 1000)
    faults: list[str] = []
    found.on("pageerror", lambda error: faults.append(str(error)))
    found.on("console", lambda said: faults.append(said.text) if "Content Security Policy" in said.text else None)
    yield found
    browser.close(found)
    assert not faults


def test_a_person_signs_in_and_takes_a_run_from_start_to_approval_to_end(
    url: str, issuer: SecureIssuer, page: Page
) -> None:
    """What they do is done in the name of the token's subject, and the live feed answers their page."""
    frames = frames_of(page)
    page.goto(f"{url}/#/runs?workflow=flow")
    page.get_by_role("button", name="Start a run").click()
    assert [one["client_id"] for one in issuer.asked] == [CLIENT]
    assert "code=" not in page.url
    take_to_its_end(page, SECONDS)
    expect(page.locator(".entry", has_text="approval.received")).to_contain_text("by ana")
    assert is_fed(page, frames)


def test_without_a_token_only_the_page_and_its_files_are_served(url: str) -> None:
    for path in ("/runs", "/workflows", "/stats", "/stream", "/openapi.json"):
        assert status_of(url, path) == UNAUTHORIZED, path
    assert {status_of(url, path) for path in ("/", "/console/console.js", "/console/console.css")} == {200}


def status_of(url: str, path: str) -> int:
    """No resolver of Python's knows the names below localhost that a browser knows."""
    place = urlsplit(url)
    connection = http.client.HTTPConnection("127.0.0.1", place.port or 80, timeout=SECONDS)
    try:
        connection.request("GET", path, headers={"host": place.netloc, "accept": "text/html"})
        return connection.getresponse().status
    finally:
        connection.close()
