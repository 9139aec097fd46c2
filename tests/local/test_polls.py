"""Calls that wait for a run hold no thread: however many are open, the dev server answers others at once."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from stepwell.limits import WAIT_ANSWER_SECONDS
from stepwell.local.gateway import THREADS, Gateway
from stepwell.runtime.loop.driving import Pause
from tests.local.kit import DEADLINE_SECONDS, Dev, until
from tests.local.test_gateway import call, scope

POLLS = 200
SOURCES = """
sources:
  shop: {scheme: hmac, secret: env:POLLS_TEST_SECRET, header: X-Signature, event: "'paid'", key: "'A-1'"}
"""
BODY = b"{}"
SIGNED = {"x-signature": hmac.new(b"on this machine", BODY, hashlib.sha256).hexdigest()}


def ask(server: Dev, method: str, path: str, body: str = "") -> socket.socket:
    """Sends a call, and leaves its answer unread."""
    caller = socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])), DEADLINE_SECONDS)
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
    caller.sendall(f"{head}Content-Type: application/json\r\n\r\n{body}".encode())
    return caller


@contextmanager
def polls(server: Dev, count: int) -> Iterator[list[socket.socket]]:
    """Half of the calls wait by `GET result`, half by the start itself; the run waits for an approval."""
    start = {"run_id": "r1"}
    server.call("POST", "/workflows/order/runs", start)
    until(lambda: server.status("r1") == "waiting", "the approval")
    wait = f"wait={WAIT_ANSWER_SECONDS}"
    with ExitStack() as stack:
        callers = []
        for _ in range(count // 2):
            callers.append(stack.enter_context(ask(server, "GET", f"/runs/r1/result?{wait}")))
            callers.append(stack.enter_context(ask(server, "POST", f"/workflows/order/runs?{wait}", json.dumps(start))))
        yield callers


def answered(callers: list[socket.socket]) -> int:
    """How many of the calls have an answer."""
    count = 0
    for caller in callers:
        caller.setblocking(False)
        try:
            caller.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            continue
        count += 1
    return count


@pytest.fixture
def server(dev: Callable[[], Dev], folder: Path, monkeypatch: pytest.MonkeyPatch) -> Dev:
    monkeypatch.setenv("POLLS_TEST_SECRET", "on this machine")
    (folder / "webhooks.yaml").write_text(SOURCES)
    return dev()


def test_health_and_webhooks_are_answered_while_200_calls_wait(server: Dev) -> None:
    """None of the calls that wait had to end first."""
    with polls(server, POLLS) as callers:
        for _ in range(5):
            assert server.call("GET", "/health")[0] == 200
            assert server.call("POST", "/webhooks/shop", BODY, **SIGNED)[0] == 202
        assert answered(callers) == 0


def test_health_and_webhooks_are_answered_after_200_callers_left(server: Dev) -> None:
    with polls(server, POLLS):
        pass
    with polls(server, 2) as callers:
        assert server.call("GET", "/health")[0] == 200
        assert server.call("POST", "/webhooks/shop", BODY, **SIGNED)[0] == 202
        assert answered(callers) == 0


class Resolver:
    """Waits until `done` is set, but answers `/health` at once."""

    def __init__(self) -> None:
        self.waiting, self.done = 0, False

    async def resolve_async(self, event: dict[str, Any]) -> Mapping[str, Any]:
        if event["rawPath"] == "/health":
            return {"statusCode": 200, "body": f"{self.waiting} wait"}
        self.waiting += 1
        try:
            while not self.done:
                await Pause(1)
        finally:
            self.waiting -= 1
        return {"statusCode": 200}


def test_calls_that_wait_hold_no_thread_of_the_pool() -> None:
    resolver = Resolver()
    gateway = Gateway(resolver)

    async def many() -> list[int]:
        waiting = [asyncio.ensure_future(call(gateway, scope("/wait"))) for _ in range(2 * THREADS)]
        while (await call(gateway, scope("/health")))[2] != f"{2 * THREADS} wait".encode():
            pass
        resolver.done = True
        return [(await one)[0] for one in waiting]

    assert asyncio.run(many()) == [200] * (2 * THREADS)


def test_a_client_that_leaves_ends_its_wait() -> None:
    """The call is closed, and nothing is sent."""
    resolver = Resolver()
    incoming = [{"type": "http.request", "body": b""}, {"type": "http.disconnect"}]

    async def receive() -> Any:
        return incoming.pop(0)

    async def send(message: Any) -> None:
        raise AssertionError(message)

    asyncio.run(Gateway(resolver)(scope("/wait"), receive, send))
    assert resolver.waiting == 0
