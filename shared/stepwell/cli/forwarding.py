"""Serves the console for an API somewhere else, and forwards its calls with the caller's credentials."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qs, urljoin

import httpx

from stepwell.api.console import file_named, origin_of, page_for
from stepwell.api.exchange import Answer

HOP_HEADERS = frozenset({"connection", "content-length", "host", "keep-alive", "transfer-encoding"})
DROPPED = HOP_HEADERS | {"content-encoding", "set-cookie", "strict-transport-security"}
NOT_SENT = HOP_HEADERS | {"accept-encoding", "cookie"}  # httpx asks for what it can decode
_FILES = "/console/"

Event = Mapping[str, Any]
Reply = Mapping[str, Any]
Send = Callable[..., httpx.Response]  # method, url, headers and content


class Forwarder:
    """Answers events of API Gateway with what the API behind `send` answers; the console's files are this machine's.

    `key`: whoever calls must have it, first in the query of the page, then in a cookie. Other users of this machine
    reach the port too, and must not act with the caller's credentials. `feed`: the origin of the API's live feed.
    """

    def __init__(self, send: Send, what: str, key: str = "", feed: str = "") -> None:
        self._send, self._what, self._key, self._feed = send, what, key, feed
        self.cookie = f"stepwell_console_{hashlib.sha256(key.encode()).hexdigest()[:8]}"  # cookies know no ports

    async def resolve_async(self, event: dict[str, Any]) -> Reply:
        """Returns the API's answer, or 502 if it does not answer."""
        if self._key and not self._is_known(event):
            return self._admitted(event)
        method, path = event["requestContext"]["http"]["method"], event["rawPath"]
        if method == "GET" and (own := self._own(path, event["headers"])) is not None:
            return _reply(own)
        return self._forwarded(method, path, event)

    def _is_known(self, event: Event) -> bool:
        shown = [cookie.partition("=")[2] for cookie in event["cookies"] if cookie.startswith(f"{self.cookie}=")]
        return any(hmac.compare_digest(one.encode(), self._key.encode()) for one in shown)

    def _admitted(self, event: Event) -> Reply:
        """Exchanges the key of the page's address for a cookie that scripts and other sites cannot use."""
        given = parse_qs(event["rawQueryString"]).get("key", [""])[0]
        if event["rawPath"] != "/" or not hmac.compare_digest(given.encode(), self._key.encode()):
            text = '{"title": "Open the address that `stepwell console` printed", "status": 403, "code": "no_key"}'
            return {"statusCode": 403, "headers": {"Content-Type": "application/problem+json"}, "body": text}
        cookie = f"{self.cookie}={self._key}; HttpOnly; SameSite=Strict; Path=/"
        headers = {"Location": "/", "Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}
        return {"statusCode": 303, "headers": headers, "cookies": [cookie], "body": ""}

    def _own(self, path: str, headers: Mapping[str, str]) -> Answer | None:
        """The console's page and files; None for what the API answers."""
        if path == "/" and "text/html" in headers.get("accept", ""):
            return page_for(headers.get("accept", ""), self._feed)
        return file_named(path.removeprefix(_FILES)) if re.fullmatch(rf"{_FILES}[\w.]+", path) else None

    def _placed(self, content: bytes) -> bytes:
        """The address of a live feed, absolute: a relative one is the API's, not this server's."""
        found = json.loads(content)
        return json.dumps({**found, "url": _absolute(found["url"], self._feed)}).encode()

    def _forwarded(self, method: str, path: str, event: Event) -> Reply:
        query, body = event["rawQueryString"], event["body"] or ""
        headers = {name: value for name, value in event["headers"].items() if name not in NOT_SENT}
        content = base64.b64decode(body) if event["isBase64Encoded"] else body.encode()
        try:
            answer = self._send(method, f"{path}{'?' if query else ''}{query}", headers, content)
        except httpx.HTTPError as error:
            return {
                "statusCode": 502,
                "headers": {"Content-Type": "application/json"},
                "body": json.dumps({"message": f"{self._what} does not answer: {type(error).__name__}"}),
            }
        kept = {name: value for name, value in answer.headers.items() if _is_kept(name)}
        content = self._placed(answer.content) if path == "/stream" and answer.is_success else answer.content
        text = base64.b64encode(content).decode()
        return {"statusCode": answer.status_code, "headers": kept, "body": text, "isBase64Encoded": True}


def _is_kept(name: str) -> bool:
    """Leaves out which pages may read an answer: the server that forwards it says that, and browsers refuse two."""
    return name not in DROPPED and not name.startswith("access-control-")


def _absolute(url: str, origin: str) -> str:
    return origin + url if url.startswith("/") else url  # urljoin knows no WebSockets


def feed_of(send: Send, api: str) -> str:
    """Returns the origin of the live feed of the API at this URL; "" if it has none. A relative feed is the API's."""
    answer = send("GET", "/stream", {}, b"")
    if not answer.is_success:
        return ""
    return re.sub("^http", "ws", origin_of(urljoin(api, answer.json()["url"])))


def _reply(answer: Answer) -> Reply:
    return {
        "statusCode": answer.status,
        "headers": {"Content-Type": answer.content_type, **answer.headers},
        "body": answer.body if isinstance(answer.body, str) else str(answer.body),
    }
