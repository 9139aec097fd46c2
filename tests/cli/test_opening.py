"""`stepwell console`: the console's page from this machine, its calls to an API elsewhere, in the caller's name."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from stepwell.api.console import is_built
from stepwell.cli.forwarding import Forwarder, feed_of
from stepwell.local.gateway import http_event
from tests.cli.conftest import Cli, FakeApi

KEY = "a-key-of-this-test"


def reply(forwarder: Forwarder, path: str, query: str = "", **headers: str) -> dict[str, Any]:
    scope = {"method": "GET", "path": path, "query_string": query.encode()}
    return dict(asyncio.run(forwarder.resolve_async(http_event(scope, headers, b""))))


@pytest.fixture
def sent() -> list[tuple[str, str, dict[str, str]]]:
    return []


@pytest.fixture
def forwarder(sent: list[tuple[str, str, dict[str, str]]]) -> Forwarder:
    def send(method: str, url: str, headers: dict[str, str], content: bytes) -> httpx.Response:
        sent.append((method, url, headers))
        return httpx.Response(200, json={"items": []}, headers={"etag": '"1"', "set-cookie": "a=b"})

    return Forwarder(send, "the API", KEY)


def test_only_who_has_the_key_of_the_address_reaches_the_api(forwarder: Forwarder, sent: list[Any]) -> None:
    """Other users of the machine can connect to the port, and must not act with somebody's credentials."""
    for path, query, cookie in (
        ("/runs", "", ""),
        ("/runs", f"key={KEY}", ""),
        ("/", "key=wrong", ""),
        ("/", "", f"{forwarder.cookie}=wrong"),
    ):
        assert reply(forwarder, path, query, cookie=cookie)["statusCode"] == 403
    assert sent == []


def test_the_key_of_the_address_becomes_a_cookie_that_scripts_and_other_sites_cannot_use(forwarder: Forwarder) -> None:
    answer = reply(forwarder, "/", f"key={KEY}")
    assert (answer["statusCode"], answer["headers"]["Location"]) == (303, "/")
    assert answer["cookies"] == [f"{forwarder.cookie}={KEY}; HttpOnly; SameSite=Strict; Path=/"]


def test_a_call_reaches_the_api_as_it_was_made_without_the_cookie(forwarder: Forwarder, sent: list[Any]) -> None:
    held = {
        "accept-encoding": "br",
        "cookie": f"{forwarder.cookie}={KEY}",
        "if-none-match": '"0"',
        "host": "127.0.0.1:1",
    }
    answer = reply(forwarder, "/runs", "status=failed&tag=a%3Db", **held)
    assert sent == [("GET", "/runs?status=failed&tag=a%3Db", {"if-none-match": '"0"'})]
    assert (answer["statusCode"], answer["headers"]["etag"]) == (200, '"1"')
    assert "set-cookie" not in answer["headers"]


@pytest.mark.skipif(not is_built(), reason="the console is not built")
def test_the_page_and_its_files_come_from_this_machine(forwarder: Forwarder, sent: list[Any]) -> None:
    cookie = f"{forwarder.cookie}={KEY}"
    page = reply(forwarder, "/", cookie=cookie, accept="text/html")
    assert "console/console.js" in page["body"]
    assert "script-src 'self'" in page["headers"]["Content-Security-Policy"]
    assert reply(forwarder, "/console/console.css", cookie=cookie)["headers"]["Content-Type"].startswith("text/css")
    assert sent == []


def test_an_api_that_does_not_answer_is_502() -> None:
    def send(*_: object) -> httpx.Response:
        raise httpx.ConnectError("refused")

    answer = reply(Forwarder(send, "https://api.example.com"), "/runs")
    assert (answer["statusCode"], "https://api.example.com does not answer" in answer["body"]) == (502, True)


@pytest.mark.parametrize(
    ("status", "feed", "origin"),
    [
        (200, "wss://live.example.com/live?ticket=t", "wss://live.example.com"),
        (200, "/stream?run=r1", "ws://127.0.0.1:8787"),
        (404, "", ""),
    ],
)
def test_the_page_may_open_the_live_feed_of_its_api_which_may_be_at_the_apis_own_address(
    status: int, feed: str, origin: str
) -> None:
    def send(*_: object) -> httpx.Response:
        return httpx.Response(status, json={"url": feed, "expires_at": ""})

    assert feed_of(send, "http://127.0.0.1:8787") == origin
    answer = reply(Forwarder(send, "the API", feed=origin), "/stream")
    if origin:
        assert json.loads(base64.b64decode(answer["body"]))["url"].startswith(f"{origin}/")


def opened(url: str) -> subprocess.Popen[str]:
    code = "from stepwell.cli.main import main; main()"
    return subprocess.Popen(  # noqa: S603 - this Python
        [sys.executable, "-c", code, "console", "--no-open", "--url", url],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "STEPWELL_API_KEY": "the-api-key"},
    )  # fmt: skip


@pytest.fixture
def served(api: FakeApi) -> Iterator[str]:
    """The command itself, in front of a fake API that wants a key."""
    api.on("GET", "/workflows", (200, {"items": [], "next_cursor": None}))
    process = opened(api.url)
    yield process.stdout.readline().strip() if process.stdout else ""
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)


@pytest.mark.skipif(not is_built(), reason="the console is not built")
def test_the_command_says_whom_it_asks_before_there_is_an_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        process = opened(url)
        said = process.stderr.readline() if process.stderr else ""
        process.kill()
        process.communicate(timeout=30)
    assert said == f"asking {url} whether you may call it\n"


@pytest.mark.skipif(not is_built(), reason="the console is not built")
def test_with_json_it_says_nothing_but_json(cli: Cli) -> None:
    result = cli("console", "--json", "--no-open", "--url", "http://127.0.0.1:1")
    assert (result.stderr, json.loads(result.stdout)["code"]) == ("", "unreachable")


@pytest.mark.skipif(not is_built(), reason="the console is not built")
def test_the_command_serves_this_machine_alone_and_calls_with_the_callers_credentials(
    served: str, api: FakeApi
) -> None:
    found = re.fullmatch(r"ready (http://127\.0\.0\.1:\d+)/\?key=(\S+)", served)
    assert found, served
    with httpx.Client(base_url=found[1], trust_env=False) as http:
        assert http.get("/runs").status_code == 403
        assert http.get("/", params={"key": found[2]}).status_code == 303
        assert http.get("/", headers={"accept": "text/html"}).status_code == 200
        assert http.get("/", headers={"accept": "text/html", "origin": "https://evil.example"}).status_code == 403
        assert http.get("/workflows").status_code == 200
    assert [call.headers.get("x-api-key") for call in api.calls] == ["the-api-key"] * 3
