"""The API Gateway of this machine: HTTP requests as the events of an HTTP API (payload 2.0), answers back as HTTP.

An ASGI application. The resolver behind it blocks, so it runs in a thread of a pool; a call that waits for a run
gives its thread back until it looks again, but for the first moment, so any number of them can be open:

    pool       look ─┐        ┌─ look ─┐         ┌─ look: done, answer
    event loop       └─ pause ┘        └─ pause ─┘           the client is gone: the call is closed

A WebSocket at `/stream` is served by the live feed.
"""

from __future__ import annotations

import asyncio
import base64
import json
import math
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, MutableMapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol, TypeAlias
from urllib.parse import parse_qsl

from stepwell import cors
from stepwell.api.exchange import Answer
from stepwell.api.handlers import step_functions
from stepwell.api.parsing import too_large
from stepwell.api.problems import problem, refused
from stepwell.limits import BODY_BYTES, OPEN_CALLS_BURST, OPEN_CALLS_PER_SECOND, SECOND_MS
from stepwell.local.throttle import TokenBucket
from stepwell.runtime.loop.driving import Pause, run_to_pause

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]

THREADS = 64
DROPPED_BYTES = 16 * BODY_BYTES
_TEXTUAL = ("text/", "application/json", "application/javascript", "application/xml")
_OPEN = ("/webhooks/", "/callbacks/", "/approvals/")  # paths that need no authorization for the API
_LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})


class Resolver(Protocol):
    """Answers the events of requests, several at once. It may block, and suspend with a Pause."""

    async def resolve_async(self, event: dict[str, Any]) -> Mapping[str, Any]: ...


Watch: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]


class Gateway:
    """Answers requests with a resolver, each in a thread of its own until it suspends."""

    def __init__(
        self,
        app: Resolver,
        seconds: Callable[[], float] = time.monotonic,
        origins: Sequence[str] = (),
        watch: Watch | None = None,
    ) -> None:
        """`origins`: of web pages that may call, as `cors_origins` has them. `watch`: serves WebSockets at /stream."""
        self._app, self._origins, self._watch = app, origins, watch
        self._open_calls = TokenBucket(OPEN_CALLS_PER_SECOND, OPEN_CALLS_BURST, seconds)
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="stepwell-api")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = _joined(scope["headers"])
        allowed = cors.answer_headers(self._origins, headers.get("origin", ""))
        if scope["type"] == "websocket":
            await self._serve_websocket(scope, receive, send, is_local=_is_local(headers, is_allowed=bool(allowed)))
            return
        if not _is_local(headers, is_allowed=bool(allowed)):
            await _send(send, _as_event_answer(_FOREIGN))
            return
        if allowed:
            send = _adding(allowed, send)
        if allowed and scope["method"] == "OPTIONS" and "access-control-request-method" in headers:
            await _send(send, {"statusCode": 204})
            return
        wait_seconds = self._open_calls.take() if scope["path"].startswith(_OPEN) else 0.0
        if wait_seconds:
            await _send(send, _as_event_answer(_too_many(wait_seconds)))
            return
        body = await _read(receive)
        if body is None:
            refuse = step_functions.refused if scope["path"] == step_functions.PATH else refused
            await _send(send, _as_event_answer(refuse(too_large())))
            return
        event = http_event(scope, headers, body)
        client = _Client(receive)
        answer: Mapping[str, Any] | None
        try:
            answer = await self._drive(self._app.resolve_async(event), client)
        except asyncio.CancelledError:
            answer = _as_event_answer(_STOPPING)
        finally:
            client.forget()
        if answer is not None:
            await _send(send, answer, is_head=scope["method"] == "HEAD")

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def _serve_websocket(self, scope: Scope, receive: Receive, send: Send, *, is_local: bool) -> None:
        """Refuses a WebSocket before it opens unless it is the feed's, and a page of another site everywhere."""
        if self._watch is None or scope["path"] != "/stream" or not is_local:
            await receive()
            await send({"type": "websocket.close", "code": 1008})
            return
        await self._watch(scope, receive, send)

    async def _drive(self, call: Coroutine[Any, Any, Mapping[str, Any]], client: _Client) -> Mapping[str, Any] | None:
        """Returns the call's answer, or None if its client disconnected while it waited."""
        while True:
            found = await asyncio.get_running_loop().run_in_executor(self._pool, run_to_pause, call)
            if not isinstance(found, Pause):
                return found
            if not await client.stays(found.duration_ms / SECOND_MS, found.until):
                call.close()
                return None


class _Client:
    """Whoever sent a request. Its body was read, so only a disconnect can follow."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._gone: asyncio.Future[Message] | None = None
        self._awaited: tuple[Future[None], asyncio.Future[None]] | None = None

    async def stays(self, seconds: float, until: Future[None] | None = None) -> bool:
        """Waits so long, or until this is done. Returns whether the client is still there."""
        self._gone = self._gone or asyncio.ensure_future(self._receive())
        ends: set[asyncio.Future[Any]] = {self._gone} | ({self._wrapped(until)} if until is not None else set())
        await asyncio.wait(ends, timeout=max(seconds, 0), return_when=asyncio.FIRST_COMPLETED)
        return not self._gone.done()

    def _wrapped(self, until: Future[None]) -> asyncio.Future[None]:
        """The same future is wrapped once, however often it is waited for."""
        if self._awaited is None or self._awaited[0] is not until:
            self._awaited = until, asyncio.wrap_future(until)
        return self._awaited[1]

    def forget(self) -> None:
        if self._gone is not None:
            self._gone.cancel()


def http_event(scope: Scope, headers: Mapping[str, str], body: bytes) -> dict[str, Any]:
    """The event that API Gateway would send for this request."""
    path = scope.get("raw_path", scope["path"].encode()).decode("latin-1")
    query = scope["query_string"].decode("latin-1")
    text, is_base64 = _body(headers.get("content-type", ""), body)
    cookies = headers.get("cookie", "")
    return {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": path,
        "rawQueryString": query,
        "cookies": [cookie.strip() for cookie in cookies.split(";") if cookie.strip()],
        "headers": dict(headers),
        "queryStringParameters": _joined_pairs(parse_qsl(query, keep_blank_values=True)),
        "requestContext": {
            "http": {
                "method": scope["method"],
                "path": path,
                "protocol": f"HTTP/{scope.get('http_version', '1.1')}",
                "sourceIp": (scope.get("client") or ("127.0.0.1", 0))[0],
                "userAgent": headers.get("user-agent", ""),
            },
            "stage": "$default",
        },
        "body": text,
        "isBase64Encoded": is_base64,
    }


def _body(content_type: str, body: bytes) -> tuple[str | None, bool]:
    """Text as it is; anything else, and what is not the UTF-8 it should be, in base64."""
    if not body:
        return None, False
    if content_type.lower().startswith(_TEXTUAL) or "+json" in content_type:
        try:
            return body.decode(), False
        except UnicodeDecodeError:
            return base64.b64encode(body).decode(), True
    return base64.b64encode(body).decode(), True


async def _read(receive: Receive) -> bytes | None:
    """Reads the body; None when there is more of it than is taken.

    The rest is read and dropped, so that a client which sends before it reads gets its answer; one that sends without
    end does not.
    """
    parts: list[bytes] = []
    size_bytes = 0
    while True:
        message = await receive()
        part: bytes = message.get("body", b"")
        size_bytes += len(part)
        if size_bytes <= BODY_BYTES:
            parts.append(part)
        if not message.get("more_body", False) or size_bytes > DROPPED_BYTES:
            return b"".join(parts) if size_bytes <= BODY_BYTES else None


def _joined(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Header names in lower case, repeated ones joined, as API Gateway does."""
    return _joined_pairs((name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in headers)


def _joined_pairs(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in pairs:
        found[name] = f"{found[name]},{value}" if name in found else value
    return found


def _is_local(headers: Mapping[str, str], *, is_allowed: bool) -> bool:
    """Tells whether the caller means this machine.

    A web page that the user has open somewhere else must not get in: neither by a name that it made resolve to
    127.0.0.1, nor by a request across origins unless its own is allowed.
    """
    origin = headers.get("origin", "")
    return _is_name_of_here(headers.get("host", "")) and (
        is_allowed or not origin or _is_name_of_here(origin.partition("://")[2])
    )


def _is_name_of_here(host: str) -> bool:
    """Whether a host means this machine wherever it is resolved. Nobody can have a name below `localhost`: RFC 6761
    gives them all to the loopback, and browsers ask no resolver about them."""
    name = _name_of(host)
    return name in _LOCAL_NAMES or name.endswith(".localhost")


def _name_of(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdecimal() else host).lower()


_FOREIGN = problem(
    403,
    "not_local",
    "the development server answers this machine only",
    hint="call it as http://127.0.0.1 or http://localhost; a web page of another origin must be in cors_origins",
)


_STOPPING = problem(503, "stopping", "the development server stops", hint="start it again with: stepwell dev")


def _too_many(wait_seconds: float) -> Answer:
    return problem(429, "too_many_requests", "webhooks and links were called too often at once",
                   hint="send it again later", headers={"Retry-After": str(math.ceil(wait_seconds))})  # fmt: skip


def _as_event_answer(answer: Answer) -> Mapping[str, Any]:
    headers = {"Content-Type": answer.content_type, **answer.headers}
    return {"statusCode": answer.status, "headers": headers, "body": json.dumps(answer.body)}


def _adding(headers: Mapping[str, str], send: Send) -> Send:
    """Sends with these headers too."""
    more = [(name.lower().encode(), value.encode()) for name, value in headers.items()]

    async def adding(message: Message) -> None:
        begins = message["type"] == "http.response.start"
        await send({**message, "headers": [*message["headers"], *more]} if begins else message)

    return adding


async def _send(send: Send, answer: Mapping[str, Any], *, is_head: bool = False) -> None:
    body = answer.get("body") or ""
    raw = base64.b64decode(body) if answer.get("isBase64Encoded") else body.encode()
    headers = [(name.lower().encode(), str(value).encode()) for name, value in (answer.get("headers") or {}).items()]
    headers += [(b"set-cookie", cookie.encode()) for cookie in answer.get("cookies") or ()]
    if answer["statusCode"] not in (204, 304) and not is_head:  # a HEAD's would be that of the GET
        headers.append((b"content-length", str(len(raw)).encode()))
    await send({"type": "http.response.start", "status": answer["statusCode"], "headers": headers})
    await send({"type": "http.response.body", "body": raw})
