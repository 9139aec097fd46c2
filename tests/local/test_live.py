"""The live feed of the dev server: WebSockets that are told of each commit."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import urlsplit

import pytest
from wsproto.events import CloseConnection, RejectConnection, TextMessage

from stepwell.engine.entries import Entry
from stepwell.local.live import QUEUED_CHARACTERS, LiveFeed
from stepwell.runtime.calls.service import Service
from stepwell.runtime.notify.telling import Notice
from tests.contract import live_socket
from tests.contract.live_kit import AFTER, BEFORE, FLOW, STEPS, page, seen
from tests.local.kit import Dev, until


class Socket(live_socket.Socket):
    """A WebSocket of the dev server."""

    def __init__(self, dev: Dev, path: str, origin: str = "") -> None:
        super().__init__(urlsplit(dev.url).netloc, path, origin)


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


def test_a_watcher_whose_message_cannot_be_answered_is_told_why_and_let_go(dev: Dev) -> None:
    run_id = waiting(dev)
    for query, text, code in (
        (f"?run={run_id}", "[]", "bad_message"),
        (f"?run={run_id}", "{", "bad_message"),
        (f"?run={run_id}", '{"after": "0@x"}', "bad_cursor"),
        ("?run=none", '{"after": ""}', "unknown_run"),
    ):
        with Socket(dev, f"/stream{query}") as watcher:
            watcher._send(TextMessage(text))
            error = json.loads(watcher.frame())["error"]
            assert error["code"] == code
            assert error["message"]
            ended = watcher.event()
            assert isinstance(ended, CloseConnection)
            assert (ended.code, ended.reason) == (1008, code)
    assert dev.call("GET", "/stream?run=none")[0] == 404
    assert dev.call("GET", f"/stream?run={run_id}&workflow=flow")[0] == 422


def test_a_server_that_stops_ends_its_feeds(tmp_path: Path) -> None:
    (tmp_path / "workflows").mkdir()
    dev = Dev(tmp_path / "workflows", tmp_path / "data")
    with opened(dev) as watcher:
        assert dev.end(signal.SIGTERM) == 0
        assert isinstance(watcher.event(), CloseConnection | RejectConnection)


def test_a_watcher_that_reads_nothing_is_let_go_before_it_fills_the_memory() -> None:
    """The send of its first frame never returns, as with a laptop that sleeps."""
    feed, service = LiveFeed(), cast(Service, None)
    entry = Entry("0@1.0", 0, "step.completed", "0", data="x" * 10_000)
    notice = SimpleNamespace(run=SimpleNamespace(run_id="run_1", workflow="flow"), entry=entry)

    async def scene() -> int:
        told, accepted = 0, asyncio.Event()

        async def receive() -> dict[str, str]:
            if accepted.is_set():
                await asyncio.Event().wait()
            return {"type": "websocket.connect"}

        async def send(message: MutableMapping[str, Any]) -> None:
            accepted.set()
            if message["type"] == "websocket.send":
                await asyncio.Event().wait()

        serving = asyncio.ensure_future(feed.serve(service, {"query_string": b""}, receive, send))
        while not serving.done():
            if feed.wanted:
                feed.tell([cast(Notice, notice)])
                told += 10_000
            await asyncio.sleep(0)
        return told

    assert QUEUED_CHARACTERS <= asyncio.run(scene()) < 1.1 * QUEUED_CHARACTERS
    assert not feed.wanted
