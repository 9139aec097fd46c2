"""The console of a stack with `auth: jwt`: people sign in at the issuer, by an authorization code with PKCE."""

from __future__ import annotations

from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.sync_api import Page, Route, expect

from stepwell.api.console import Login, file_named, page_for
from stepwell.cli.forwarding import DROPPED, NOT_SENT
from tests.console.conftest import Served
from tests.console.issuers import AUDIENCE, CLIENT, Handler, Issuer, serving
from tests.local.kit import until

REFUSED = 401


class Stack(ThreadingHTTPServer):
    """What API Gateway does with `auth: jwt`: the console is open, all else needs a token of the issuer's."""

    def __init__(self, api: str, issuer: Issuer) -> None:
        super().__init__(("127.0.0.1", 0), _StackHandler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.api, self.issuer = api, issuer
        self.login = Login(issuer.url, CLIENT, AUDIENCE, (issuer.url,))


class _StackHandler(Handler):
    server: Stack

    def do_GET(self) -> None:  # noqa: N802 - the name that http.server calls
        path = urlsplit(self.path).path
        if path == "/" or path.startswith("/console/"):
            login = self.server.login
            own = page_for("text/html", login=login) if path == "/" else file_named(path.removeprefix("/console/"))
            self.reply(own.status, str(own.body).encode(), Content_Type=own.content_type, **own.headers)
        elif self.headers.get("authorization", "").removeprefix("Bearer ") in self.server.issuer.tokens:
            headers = {name: value for name, value in self.headers.items() if name.lower() not in NOT_SENT}
            found = httpx.get(self.server.api + self.path, headers=headers, timeout=30, trust_env=False)
            kept: dict[str, Any] = {name: value for name, value in found.headers.items() if name not in DROPPED}
            self.reply(found.status_code, found.content, **kept)
        else:
            self.reply(401, b'{"message":"Unauthorized"}', Content_Type="application/json")


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with serving(Issuer()) as made:
        yield made


@pytest.fixture
def stack(served: Served, issuer: Issuer) -> Iterator[Stack]:
    with serving(Stack(served.dev.url, issuer)) as made:
        yield made


def test_a_person_signs_in_at_the_issuer_and_comes_back_to_the_page(
    served: Served, stack: Stack, issuer: Issuer, page: Page
) -> None:
    """With a challenge that only this tab can meet; neither code nor token stays in the address."""
    run_id = served.runs["failed"]
    page.goto(f"{stack.url}/#/runs/{run_id}")
    expect(page.locator(".title .status")).to_have_text("failed")
    assert page.url == f"{stack.url}/#/runs/{run_id}"
    (asked,) = issuer.asked
    assert (asked["client_id"], asked["audience"], asked["scope"]) == (CLIENT, AUDIENCE, "openid")
    assert (asked["code_challenge_method"], asked["response_type"]) == ("S256", "code")
    page.reload()
    expect(page.locator(".title .status")).to_have_text("failed")
    assert len(issuer.asked) == 1


def test_a_token_that_the_api_does_not_take_leads_to_the_issuer_again(stack: Stack, issuer: Issuer, page: Page) -> None:
    page.goto(f"{stack.url}/#/workflows")
    expect(page.locator(".tiles .card").first).to_be_visible()
    issuer.tokens.clear()
    page.get_by_role("link", name="Runs").click()
    until(lambda: page.wait_for_timeout(10) or len(issuer.asked) > 1, "the page asks the issuer again")
    # A read of the page that was open may have been refused before the click: then that page comes back.
    expect(page.locator(".runs tbody tr, .tiles .card").first).to_be_visible()


def test_who_opens_another_page_while_this_one_leaves_comes_back_to_that_one(
    stack: Stack, issuer: Issuer, page: Page
) -> None:
    page.goto(f"{stack.url}/#/workflows")
    expect(page.locator(".tiles .card").first).to_be_visible()
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/.well-known/openid-configuration", hold, times=1)
    issuer.tokens.clear()
    page.get_by_role("link", name="Inbox").click()
    until(lambda: page.wait_for_timeout(10) or bool(held), "the page asks where to sign in")
    page.get_by_role("link", name="Runs").click()
    held[0].continue_()
    expect(page.locator(".runs tbody tr").first).to_be_visible()


def test_whom_the_issuer_refuses_is_told_why_and_sees_nothing(stack: Stack, issuer: Issuer, page: Page) -> None:
    issuer.refuses = True
    page.goto(f"{stack.url}/#/runs")
    expect(page.get_by_text("You may not.")).to_be_visible()
    expect(page.locator(".runs")).to_have_count(0)
    issuer.refuses = False
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator(".runs tbody tr").first).to_be_visible()


def test_an_answer_that_this_tab_did_not_ask_for_is_not_taken(stack: Stack, issuer: Issuer, page: Page) -> None:
    """Somebody else's code in a link would sign the reader in as them."""
    before = len(issuer.asked)
    page.goto(f"{stack.url}/?code=theirs&state=theirs#/runs")
    expect(page.locator(".runs tbody tr").first).to_be_visible()
    assert len(issuer.asked) == before + 1
    assert "theirs" not in page.url


def test_who_signs_out_stays_out_until_they_sign_in(stack: Stack, page: Page) -> None:
    page.goto(f"{stack.url}/#/runs")
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_text("You are signed out.")).to_be_visible()
    assert page.evaluate("sessionStorage.getItem('stepwell-token')") is None
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator(".runs tbody tr").first).to_be_visible()


def test_who_signs_out_stays_out_although_the_page_still_reads(stack: Stack, issuer: Issuer, page: Page) -> None:
    """A read that leaves after the token is gone and before the page is: its refusal does not sign in again."""
    page.goto(f"{stack.url}/#/runs")
    expect(page.locator(".runs tbody tr").first).to_be_visible()
    held: list[Route] = []
    page.route(f"{stack.url}/", lambda route: held.append(route))  # noqa: PLW0108 - Playwright marks what it calls
    with page.expect_response(lambda answer: answer.status == REFUSED):
        page.get_by_role("button", name="Sign out").evaluate(
            "button => { button.click(); document.dispatchEvent(new Event('visibilitychange')) }"
        )
    until(lambda: page.wait_for_timeout(20) or held, "the page is loaded again")
    held[0].continue_()
    expect(page.get_by_text("You are signed out.")).to_be_visible()
    assert len(issuer.asked) == 1
