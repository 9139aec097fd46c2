"""What `stepwell dev --aws` puts before the emulator's API, with a stand-in for the emulator."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from stepwell.aws.emulation.deployment import Stack
from stepwell.cli.folder import emulate
from stepwell.cli.folder.emulate import api_key_of, gateway_to
from stepwell.errors import StepwellError

PAGE = "https://shop.example.com"


class Deployed(BaseHTTPRequestHandler):
    """An API whose own answers say which pages may read them, as API Gateway's do."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("access-control-allow-origin", PAGE)
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *words: object) -> None:
        """Keeps the test quiet."""


@pytest.fixture
def emulator() -> Iterator[Any]:
    with HTTPServer(("127.0.0.1", 0), Deployed) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        port = server.server_address[1]
        yield SimpleNamespace(url=f"http://127.0.0.1:{port}", port=port, signature=lambda: None)
        server.shutdown()


def answer_of(emulator: Any, method: str, **headers: str) -> httpx.Response:
    """The answer of the local server to a page."""
    stack: Any = SimpleNamespace(outputs={}, of_type=lambda kind: {"Api0123": "abc"})
    with gateway_to(emulator, stack, [PAGE]) as gateway:
        wire = httpx.ASGITransport(gateway)

        async def main() -> httpx.Response:
            async with httpx.AsyncClient(transport=wire, base_url="http://127.0.0.1") as browser:
                return await browser.request(method, "/runs", headers=headers)

        return asyncio.run(main())


def test_a_page_of_cors_origins_may_call_a_deployed_stack_too(emulator: Any) -> None:
    asked = answer_of(emulator, "OPTIONS", origin=PAGE, **{"access-control-request-method": "POST"})
    assert (asked.status_code, asked.headers["access-control-allow-origin"]) == (204, PAGE)
    answer = answer_of(emulator, "GET", origin=PAGE)
    assert (answer.status_code, answer.headers.get_list("access-control-allow-origin")) == (200, [PAGE])


def test_another_page_may_not(emulator: Any) -> None:
    refused = answer_of(emulator, "GET", origin="https://evil.example.com")
    assert (refused.status_code, refused.json()["code"]) == (403, "not_local")
    assert "cors_origins" in refused.json()["hint"]


@pytest.mark.parametrize(("outputs", "key"), [({"ApiKeySecret": "arn:of:the:key"}, "k-1"), ({}, "")])
def test_the_key_of_an_api_with_keys_is_read_for_its_callers(outputs: dict[str, str], key: str) -> None:
    """Only the stack knows it: `stepwell dev --aws` tells it, so that the next command has it."""
    secrets = SimpleNamespace(get_secret_value=lambda SecretId: {"SecretString": {"arn:of:the:key": "k-1"}[SecretId]})  # noqa: N803
    assert api_key_of(Stack("Stepwell", outputs, {}), lambda service: secrets) == key


def test_a_deployment_that_fails_in_any_way_is_logged_and_the_next_change_is_deployed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    changes = [{(1, f"flows/{name}.py")} for name in ("first", "second", "third")]
    monkeypatch.setattr(emulate, "watch", lambda *sources, **options: iter(changes))
    ways = iter([StepwellError("no wheel"), KeyError("files"), None])
    deployed = []

    def stand() -> Any:
        if (error := next(ways)) is not None:
            raise error
        deployed.append(True)

    with caplog.at_level("INFO"):
        emulate._follow([Path("flows")], stand, threading.Event())
    assert deployed == [True]
    assert caplog.text.count("not deployed, the previous version stays") == 2
