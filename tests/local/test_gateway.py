"""The local gateway: the same events as API Gateway's, many at once, and no caller from elsewhere."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import threading
from typing import Any

import pytest

from stepwell.limits import BODY_BYTES, OPEN_CALLS_BURST, OPEN_CALLS_PER_SECOND
from stepwell.local.dev import listen
from stepwell.local.gateway import Gateway, http_event
from tests.api.kit import World

HOST = (b"host", b"localhost:8000")


def scope(path: str = "/runs", method: str = "GET", query: str = "", *headers: tuple[bytes, bytes]) -> dict[str, Any]:
    return {
        "type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": query.encode(),
        "headers": [HOST, *headers], "client": ("127.0.0.1", 1), "http_version": "1.1",
    }  # fmt: skip


async def call(gateway: Gateway, asked: dict[str, Any], *parts: bytes) -> tuple[int, dict[str, str], bytes]:
    incoming = [{"body": part, "more_body": index + 1 < len(parts)} for index, part in enumerate(parts)] or [{}]
    outgoing: list[Any] = []

    async def receive() -> Any:
        return incoming.pop(0) if incoming else await asyncio.Event().wait()

    async def send(message: Any) -> None:
        outgoing.append(message)

    await gateway(asked, receive, send)
    headers = {name.decode(): value.decode() for name, value in outgoing[0]["headers"]}
    return outgoing[0]["status"], headers, outgoing[1]["body"]


@pytest.fixture
def gateway() -> Gateway:
    world = World()
    return Gateway(world.app)


def test_an_event_has_the_shape_of_payload_2_0() -> None:
    asked = scope(
        "/runs/a%20b", "GET", "status=a&status=b&x=", (b"Cookie", b"a=1; b=2"), (b"x-y", b"1"), (b"x-y", b"2")
    )
    event = http_event(asked, {"cookie": "a=1; b=2", "x-y": "1,2"}, b"")
    assert (event["version"], event["rawPath"], event["rawQueryString"]) == (
        "2.0",
        "/runs/a%20b",
        "status=a&status=b&x=",
    )
    assert event["queryStringParameters"] == {"status": "a,b", "x": ""}
    assert event["cookies"] == ["a=1", "b=2"]
    assert (event["body"], event["isBase64Encoded"]) == (None, False)
    assert event["requestContext"]["http"]["method"] == "GET"


@pytest.mark.parametrize("content_type", ["application/x-www-form-urlencoded", "", "application/octet-stream"])
def test_a_body_that_is_no_text_or_json_comes_in_base64(content_type: str) -> None:
    event = http_event(scope(), {"content-type": content_type}, b"a=b")
    assert (base64.b64decode(event["body"]), event["isBase64Encoded"]) == (b"a=b", True)


def test_json_comes_as_text_and_in_base64_when_it_is_not_utf_8() -> None:
    headers = {"content-type": "application/json; charset=utf-8"}
    assert http_event(scope(), headers, '{"a":"é"}'.encode())["body"] == '{"a":"é"}'
    assert http_event(scope(), headers, b"\xff")["isBase64Encoded"]


def test_a_body_in_parts_is_put_together_and_a_large_one_refused(gateway: Gateway) -> None:
    posted = scope("/workflows/quick/runs", "POST")
    status, _, body = asyncio.run(call(gateway, posted, b'{"input":', b' {"a": 1}}'))
    assert (status, json.loads(body)["input"]) == (201, {"a": 1})
    half = b"x" * (BODY_BYTES // 2 + 1)
    status, headers, body = asyncio.run(call(gateway, posted, half, half, b"rest"))
    assert (status, headers["content-type"]) == (413, "application/problem+json")
    assert json.loads(body)["code"] == "body_too_large"
    status, headers, body = asyncio.run(call(gateway, scope("/aws/states", "POST"), half, half))
    kind = "ValidationException"
    assert (status, headers["x-amzn-errortype"], json.loads(body)["__type"]) == (400, kind, kind)


@pytest.mark.parametrize(
    "foreign",
    [(b"origin", b"https://evil.example"), (b"origin", b"null"), (b"origin", b"http://localhost.evil.example")],
)
def test_a_page_of_another_origin_is_refused(gateway: Gateway, foreign: tuple[bytes, bytes]) -> None:
    assert asyncio.run(call(gateway, scope("/runs", "GET", "", foreign)))[0] == 403


@pytest.mark.parametrize("name", [b"shop.localhost:8787", b"a.b.LOCALHOST", b"localhost", b"127.0.0.1:80", b"[::1]:80"])
def test_each_name_of_this_machine_is_answered_also_as_an_origin(gateway: Gateway, name: bytes) -> None:
    """Browsers take every name below `localhost` for this machine: no other page can have one."""
    named = [(b"host", name), (b"origin", b"http://" + name)]
    assert asyncio.run(call(gateway, {**scope("/runs"), "headers": named}))[0] == 200


@pytest.mark.parametrize(
    "name", [b"evil.example", b"evillocalhost", b"shop.localhost.evil.example", b"127.0.0.1.evil.example:80", b""]
)
def test_a_name_that_is_not_this_machines_is_refused(gateway: Gateway, name: bytes) -> None:
    assert asyncio.run(call(gateway, {**scope(), "headers": [(b"host", name)]}))[0] == 403


def test_the_answer_to_head_claims_no_length_that_a_get_does_not_have(gateway: Gateway) -> None:
    status, headers, body = asyncio.run(call(gateway, scope("/health", "HEAD")))
    assert (status, body, "content-length" in headers) == (200, b"", False)


def test_calls_at_the_same_time_get_their_own_answers() -> None:
    gateway = Gateway(World().app)

    async def one(number: int) -> None:
        for turn in range(20):
            name = f"missing-{number}-{turn}"
            _, _, body = await call(gateway, scope(f"/workflows/{name}"))
            assert name in json.loads(body)["detail"]

    async def all_of_them() -> None:
        await asyncio.gather(*(one(number) for number in range(8)))

    asyncio.run(all_of_them())


def test_a_call_under_way_gets_503_when_the_server_stops() -> None:
    begun, goes_on = threading.Event(), threading.Event()

    class Slow:
        async def resolve_async(self, event: dict[str, Any]) -> Any:
            begun.set()
            goes_on.wait(60)

    async def stopped() -> tuple[int, dict[str, str], bytes]:
        calling = asyncio.ensure_future(call(Gateway(Slow()), scope("/runs")))
        await asyncio.to_thread(begun.wait, 60)
        calling.cancel()
        try:
            return await calling
        finally:
            goes_on.set()

    status, _, body = asyncio.run(stopped())
    assert (status, json.loads(body)["code"]) == (503, "stopping")


def test_a_flood_of_open_calls_gets_429_and_leaves_the_signed_api_alone() -> None:
    """Webhooks and links share a bucket of tokens; calls that sign for the API take none."""
    now = [0.0]
    world = World()
    gateway = Gateway(world.app, lambda: now[0])

    async def flood(count: int) -> list[int]:
        paths = ("/webhooks/hub", "/callbacks/x", "/approvals/x")
        return [(await call(gateway, scope(paths[number % 3], "POST")))[0] for number in range(count)]

    assert 429 not in asyncio.run(flood(OPEN_CALLS_BURST))
    status, headers, body = asyncio.run(call(gateway, scope("/webhooks/hub", "POST")))
    assert (status, headers["retry-after"], json.loads(body)["code"]) == (429, "1", "too_many_requests")
    assert asyncio.run(call(gateway, scope("/health")))[0] == 200
    now[0] += 1.0
    assert asyncio.run(flood(OPEN_CALLS_PER_SECOND + 1)).count(429) == 1


PAGE = (b"origin", b"https://shop.example.com")


def asked_by_a_page(*origins: str) -> tuple[int, dict[str, str], bytes]:
    world = World()
    return asyncio.run(call(Gateway(world.app, origins=origins), scope("/health", "GET", "", PAGE)))


@pytest.mark.parametrize(("allowed", "said"), [("https://shop.example.com", "https://shop.example.com"), ("*", "*")])
def test_a_page_whose_origin_is_allowed_may_call_and_read_the_answer(allowed: str, said: str) -> None:
    status, headers, _ = asked_by_a_page("https://other.example.com", allowed)
    assert (status, headers["access-control-allow-origin"], headers["vary"]) == (200, said, "Origin")


def test_a_page_is_refused_unless_its_own_origin_is_allowed() -> None:
    status, headers, _ = asked_by_a_page("https://other.example.com")
    assert status == 403
    assert "access-control-allow-origin" not in headers


class Unasked:
    async def resolve_async(self, event: dict[str, Any]) -> Any:
        pytest.fail("no call of the API")


def test_a_browser_that_asks_first_is_answered_by_the_gateway() -> None:
    ask = scope("/runs", "OPTIONS", "", PAGE, (b"access-control-request-method", b"POST"))
    gateway = Gateway(Unasked(), origins=["https://shop.example.com"])
    status, headers, _ = asyncio.run(call(gateway, ask))
    assert status == 204
    assert "idempotency-key" in headers["access-control-allow-headers"]
    assert "POST" in headers["access-control-allow-methods"]


def test_no_answer_waits_for_the_acknowledgement_of_its_head() -> None:
    """With Nagle's algorithm on, each answer on a kept connection would take 40 ms."""

    async def is_sent_at_once() -> bool:
        found: asyncio.Queue[int] = asyncio.Queue()

        async def accept(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            connection = writer.get_extra_info("socket")
            found.put_nowait(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        listening = listen(0)
        async with await asyncio.start_server(accept, sock=listening):
            _, writer = await asyncio.open_connection(*listening.getsockname())
            writer.close()
            return bool(await found.get())

    assert asyncio.run(is_sent_at_once())
