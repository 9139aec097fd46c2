"""The live feed of the dev server: WebSockets that are told of each commit."""

from __future__ import annotations

import json
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, CloseConnection, Event, RejectConnection, Request, TextMessage

from tests.contract.live_kit import AFTER, BEFORE, FLOW, STEPS, page, seen
from tests.local.kit import DEADLINE_SECONDS, Dev, until


class Socket:
    """A WebSocket of the dev server."""

    def __init__(self, dev: Dev, path: str, origin: str = "") -> None:
        host = urlsplit(dev.url).netloc
        self._socket = socket.create_connection(tuple(host.split(":")), DEADLINE_SECONDS)
        self._protocol, self._events = WSConnection(ConnectionType.CLIENT), iter(list[Event]())
        headers = [(b"origin", origin.encode())] if origin else []
        self._send(Request(host=host, target=path, extra_headers=headers))
        self.is_open = isinstance(self.event(), AcceptConnection)

    def _send(self, event: Event) -> None:
        self._socket.sendall(self._protocol.send(event))

    def event(self) -> Event:
        while (found := next(self._events, None)) is None:
            self._protocol.receive_data(self._socket.recv(65_536) or None)
            self._events = iter(list(self._protocol.events()))
        return found

    def ask(self, after: str | None = None) -> str:
        self._send(TextMessage(json.dumps({} if after is None else {"after": after})))
        return self.frame()

    def frame(self) -> str:
        parts: list[str] = []
        while isinstance(event := self.event(), TextMessage):
            parts.append(event.data)
            if event.message_finished:
                return "".join(parts)
        raise AssertionError(f"the feed ended: {event}")

    def until(self, kind: str) -> list[str]:
        """The frames up to the one with an entry of this type."""
        frames = [self.frame()]
        while not any(one == kind for one, _ in seen(frames)):
            frames.append(self.frame())
        return frames

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Socket:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@pytest.fixture(scope="module")
def dev(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dev]:
    place: Path = tmp_path_factory.mktemp("live")
    (place / "workflows").mkdir()
    (place / "workflows" / "flow.yaml").write_text(FLOW)
    (place / "workflows" / "m.py").write_text(STEPS)
    dev = Dev(place / "workflows", place / "data")
    yield dev
    dev.end(signal.SIGKILL)


def waiting(dev: Dev) -> str:
    run_id = str(dev.call("POST", "/workflows/flow/runs", {"input": {}})[1]["run_id"])
    until(lambda: dev.status(run_id) == "waiting", "it waits")
    return run_id


def opened(dev: Dev, query: str = "") -> Socket:
    """As a browser does it: it asks for the address, then opens it."""
    status, found = dev.call("GET", f"/stream{query}")
    assert status == 200
    made = Socket(dev, found["url"])
    assert made.is_open
    return made


def test_a_watcher_gets_what_came_before_and_then_what_is_committed(dev: Dev) -> None:
    """The same entries as on AWS, and from a cursor on those that it does not know."""
    run_id = waiting(dev)
    watcher = opened(dev, f"?run={run_id}")
    past = watcher.ask("")
    assert seen([past]) == BEFORE
    dev.call("POST", f"/runs/{run_id}/approve", {})
    assert seen([past, *watcher.until("run.completed")]) == [*BEFORE, *AFTER]
    watcher.close()
    again = opened(dev, f"?run={run_id}")
    assert seen([again.ask(page(past)[0])]) == AFTER
    assert page(again.ask()) == ("", False)
    again.close()


def test_who_watches_a_workflow_or_all_runs_gets_their_entries_from_now_on(dev: Dev) -> None:
    own, all_, other = opened(dev, "?workflow=flow"), opened(dev), opened(dev, "?workflow=none")
    run_id = waiting(dev)
    dev.call("POST", f"/runs/{run_id}/approve", {})
    assert seen(own.until("run.completed")) == seen(all_.until("run.completed")) == [*BEFORE, *AFTER]
    assert seen([other.ask("")]) == []
    for one in (own, all_, other):
        one.close()


def test_a_page_of_another_site_opens_no_feed_and_no_other_path_is_one(dev: Dev) -> None:
    for path, origin, is_open in (
        ("/stream", "https://evil.example", False),
        ("/runs", "", False),
        ("/stream", dev.url, True),
    ):
        with Socket(dev, path, origin) as found:
            assert found.is_open is is_open


def test_a_watcher_that_sends_no_cursor_is_let_go(dev: Dev) -> None:
    run_id = waiting(dev)
    for text in ("[]", '{"after": "0@x"}'):
        with opened(dev, f"?run={run_id}") as watcher:
            watcher._send(TextMessage(text))
            assert isinstance(watcher.event(), CloseConnection)
    assert dev.call("GET", "/stream?run=none")[0] == 404
    assert dev.call("GET", f"/stream?run={run_id}&workflow=flow")[0] == 422


def test_a_server_that_stops_ends_its_feeds(tmp_path: Path) -> None:
    (tmp_path / "workflows").mkdir()
    dev = Dev(tmp_path / "workflows", tmp_path / "data")
    with opened(dev) as watcher:
        assert dev.end(signal.SIGTERM) == 0
        assert isinstance(watcher.event(), CloseConnection | RejectConnection)
