"""Webhooks out of the dev server: sent as runs go on, kept over a restart, dropped with their endpoint."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stepwell.local.wiring import NOTIFICATIONS_FILE
from tests.api.webhook_kit import STANDARD, WebhookWorld
from tests.local.kit import Dev, until
from tests.runtime.http_kit import Server, reply

Start = Callable[[], Dev]

FLOW = "workflow: flow\ntimeline: [{name: ok, wait: {for: event, name: paid, key: k}}]"
EVENTS = ["run.created", "run.started", "event.awaited", "event.received", "run.completed"]


def endpoint(port: int, folder: Path) -> None:
    (folder / "flow.yaml").write_text(FLOW)
    out = {"url": f"http://127.0.0.1:{port}/in", "secret": ["env:OUT_SECRET"], "events": EVENTS, "workflows": ["flow"]}
    (folder / "webhooks.yaml").write_text(json.dumps({"out": {"crm": out}}))


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUT_SECRET", STANDARD)


def told(asked: list[bytes]) -> list[dict[str, Any]]:
    return [json.loads(one.partition(b"\r\n\r\n")[2]) for one in asked]


def test_a_run_is_told_to_an_endpoint_of_this_machine_signed(
    dev: Start, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Server(reply("204 No Content")) as receiver:
        monkeypatch.setenv("STEPWELL_HTTP_HOSTS", f"http://127.0.0.1:{receiver.port}")
        endpoint(receiver.port, folder)
        server = dev()
        server.call("POST", "/workflows/flow/runs", {"run_id": "r1"})
        until(lambda: server.status("r1") == "waiting", "it waits")
        server.call("POST", "/events", {"name": "paid", "key": "k", "payload": {"amount": 3}})
        until(lambda: len(receiver.asked) >= len(EVENTS), "all are told")
        found = {one["type"]: one["data"] for one in told(receiver.asked)}
        assert sorted(found) == sorted(EVENTS)
        assert len(receiver.asked) == len(EVENTS)
        assert found["run.completed"]["status"] == "completed"
        assert found["event.received"]["entry"]["data"]["payload"] == {"amount": 3}
    head, _, body = receiver.asked[0].partition(b"\r\n\r\n")
    headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n")[1:])
    world = WebhookWorld("sources: {a: {scheme: standard-webhooks, secret: env:STANDARD, event: body.type}}")
    world.clock.set(int(headers["webhook-timestamp"]) * 1_000)
    assert world.deliver("a", body, headers).status == 202


def test_a_pause_and_its_end_are_told(dev: Start, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Server(reply("204 No Content")) as receiver:
        monkeypatch.setenv("STEPWELL_HTTP_HOSTS", f"http://127.0.0.1:{receiver.port}")
        endpoint(receiver.port, folder)
        text = (folder / "webhooks.yaml").read_text()
        (folder / "webhooks.yaml").write_text(text.replace(json.dumps(EVENTS), '["run.paused", "run.unpaused"]'))
        server = dev()
        server.call("POST", "/workflows/flow/runs", {"run_id": "r1"})
        until(lambda: server.status("r1") == "waiting", "it waits")
        server.call("POST", "/runs/r1/pause", {"reason": "the bank is down", "by": "ana"})
        server.call("POST", "/runs/r1/unpause", {})
        until(lambda: len(receiver.asked) == 2, "both are told")
        found = {one["type"]: one["data"] for one in told(receiver.asked)}
    assert set(found) == {"run.paused", "run.unpaused"}
    assert found["run.paused"]["entry"]["data"] == {"reason": "the bank is down"}


def put_off(dev: Start, folder: Path, monkeypatch: pytest.MonkeyPatch, port: int) -> str:
    """Has the server end once a delivery waits for its next try. Returns the text of webhooks.yaml."""
    monkeypatch.setenv("STEPWELL_HTTP_HOSTS", f"http://127.0.0.1:{port}")
    endpoint(port, folder)
    text = (folder / "webhooks.yaml").read_text().replace(json.dumps(EVENTS), '["run.created"]')
    (folder / "webhooks.yaml").write_text(text)
    server = dev()
    server.call("POST", "/workflows/flow/runs", {"run_id": "r1"})
    until(lambda: "it is sent again in" in server.errors, "it is put off")
    server.end()
    return text


def test_what_could_not_be_sent_is_sent_after_a_restart(
    dev: Start, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Server(reply("503 Busy"), reply("200 OK")) as receiver:
        put_off(dev, folder, monkeypatch, receiver.port)
        dev()
        until(lambda: len(receiver.asked) == 2, "it comes again")
    first, again = told(receiver.asked)
    assert first == again


def test_what_could_not_be_sent_waits_while_its_file_is_broken(
    dev: Start, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Server(reply("503 Busy"), reply("200 OK")) as receiver:
        good = put_off(dev, folder, monkeypatch, receiver.port)
        (folder / "webhooks.yaml").write_text("out: {crm: {url: ")
        dev().end()
        (folder / "webhooks.yaml").write_text(good)
        dev()
        until(lambda: len(receiver.asked) == 2, "it comes again")
    first, again = told(receiver.asked)
    assert first == again


def test_a_deleted_run_leaves_nothing_in_the_file_of_what_was_sent(
    dev: Start, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Server(reply("204 No Content")) as receiver:
        monkeypatch.setenv("STEPWELL_HTTP_HOSTS", f"http://127.0.0.1:{receiver.port}")
        endpoint(receiver.port, folder)
        server = dev()
        file = server.data / NOTIFICATIONS_FILE
        server.call("POST", "/workflows/flow/runs", {"run_id": "r1"})
        server.call("POST", "/events", {"name": "paid", "key": "k", "payload": {"who": "ana-7731"}})
        until(lambda: len(receiver.asked) == len(EVENTS) and _is_empty(file), "all are told")
        assert _holds(file, "ana-7731")
        assert server.call("DELETE", "/runs/r1")[0] == 200
        assert not _holds(file, "ana-7731")


def _is_empty(file: Path) -> bool:
    with contextlib.closing(sqlite3.connect(file)) as database:
        return not database.execute("SELECT 1 FROM messages").fetchall()


def _holds(file: Path, text: str) -> bool:
    return any(text.encode() in one.read_bytes() for one in file.parent.glob(f"{file.name}*"))
