"""The live feed of the dev server: WebSockets that are told of each commit."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from wsproto.events import CloseConnection, RejectConnection, TextMessage

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
