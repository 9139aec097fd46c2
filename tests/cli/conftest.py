"""A fake API on a real port, and the command line in front of it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import typer.testing
from typer.main import get_command
from typer.testing import CliRunner, Result

from stepwell.cli import connect
from stepwell.cli.main import app
from stepwell.cli.runs import watch
from stepwell.client import exchange

COMMAND_OF = cache(get_command)  # made of a hundred functions: once, not at each call
RUN: dict[str, Any] = {
    "run_id": "run_01JABC",
    "workflow": "order-review",
    "version": "sha256:7a2a67bc9eca8f36",
    "status": "waiting",
    "phase": "waiting_for_approval",
    "outcome": None,
    "current_steps": ["approve"],
    "progress": "2/6",
    "waiting_for": "approval",
    "waiting_until": "2099-03-01T14:02:00.000Z",
    "waiting_data": {"order_id": "A-1"},
    "pending_reason": None,
    "input": {"order_id": "A-1"},
    "state": {},
    "steps": {
        "validate": {
            "status": "completed",
            "output": {"total": 121},
            "error": None,
            "attempts": 1,
            "started_at": "2026-03-01T13:00:00.000Z",
            "ended_at": "2026-03-01T13:00:00.085Z",
        },
        "charge": {
            "status": "failed",
            "output": None,
            "error": {
                "type": "CardDeclined",
                "category": "step",
                "message": "no funds",
                "step": "charge",
                "attempts": 3,
            },
            "attempts": 3,
            "started_at": "2026-03-01T13:00:01.000Z",
            "ended_at": "2026-03-01T13:00:04.000Z",
        },
    },
    "result": None,
    "error": None,
    "result_type": None,
    "result_summary": None,
    "cancelled_by": None,
    "cancel_reason": None,
    "parent": None,
    "children": [],
    "tags": {"team": "payments"},
    "cost": {"steps": 4},
    "created_at": "2026-03-01T13:00:00.000Z",
    "started_at": "2026-03-01T13:00:00.000Z",
    "ended_at": None,
    "links": {"self": "/runs/run_01JABC"},
}
COMPLETED = {
    **RUN,
    "status": "completed",
    "phase": "completed",
    "progress": "6/6",
    "waiting_for": None,
    "waiting_until": None,
    "waiting_data": None,
    "current_steps": [],
    "result": {"confirmation": "A-1 confirmed"},
    "ended_at": "2026-03-01T13:00:09.000Z",
}
FAILED = {
    **COMPLETED,
    "status": "failed",
    "phase": "failed",
    "progress": "2/6",
    "result": None,
    "error": {"type": "ValueError", "category": "step", "message": "no amount", "step": "charge", "attempts": 1},
}
HISTORY = [
    {
        "id": f"0-{number}",
        "at": f"2026-03-01T13:00:0{number}.000Z",
        "type": kind,
        "token": "0",
        "step": step,
        "attempt": 1,
        "from": before,
        "to": after,
        "trigger": "internal",
        "by": "wake:0:-1",
        "data": data,
    }
    for number, (kind, step, before, after, data) in enumerate(
        [
            ("run.started", None, None, None, None),
            ("step.completed", "validate", None, None, {"output": {"total": 121}}),
            ("phase.changed", "approve", "executing_step", "waiting_for_approval", None),
        ]
    )
]


def problem(status: int, code: str, detail: str, **more: Any) -> tuple[int, dict[str, Any]]:
    """An answer as the API gives it for an error."""
    title = code.replace("_", " ").capitalize()
    body = {"type": f"urn:stepwell:{code}", "code": code, "title": title, "status": status, "detail": detail, **more}
    return status, body


@dataclass(frozen=True)
class Called:
    """A call that the fake got."""

    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: Any


@dataclass
class FakeApi:
    """Answers by method and path; several answers to one call come one after the other, the last one for good."""

    url: str
    answers: dict[tuple[str, str], list[tuple[int, Any]]] = field(default_factory=dict)
    calls: list[Called] = field(default_factory=list)

    def on(self, method: str, path: str, *answers: tuple[int, Any]) -> None:
        self.answers[method, path] = list(answers)

    def has_run(self, *states: dict[str, Any], history: list[dict[str, Any]] | None = None) -> None:
        """A run that is in these states, one after the other; its history is all there from the start."""
        path = f"/runs/{RUN['run_id']}"
        self.on("GET", path, *((200, state) for state in states))
        entries = HISTORY if history is None else history
        page = {"items": entries, "next_cursor": None}
        self.on("GET", f"{path}/history", (200, page), (200, {"items": [], "next_cursor": None}))
        emitted = {"cursor": "c1", "at": "2026-03-01T13:00:00.105Z", "token": "0", "step": "validate", "attempt": 1,
                   "first": True, "data": {"word": "checking"}}  # fmt: skip
        self.on("GET", f"{path}/output", (200, {"items": [emitted], "next_cursor": "c1"}),
                (200, {"items": [], "next_cursor": "c1"}))  # fmt: skip
        self.on(
            "GET",
            f"{path}/result",
            (202, {"status": "running"}),
            problem(409, "run_failed", "it failed", run_status="failed"),
        )

    def answer(self, called: Called) -> tuple[int, Any]:
        self.calls.append(called)
        found = self.answers.get((called.method, called.path))
        if not found:
            return problem(404, "unknown_run", f"there is no {called.path}", hint="stepwell runs lists them")
        return found.pop(0) if len(found) > 1 else found[0]


@pytest.fixture(autouse=True)
def given_no_url() -> None:
    """A command is a process of its own: here the URL that an earlier one was given would stay."""
    connect._given.set("")
    connect._run.set("")


@pytest.fixture
def api() -> Iterator[FakeApi]:
    """A fake API that serves while the test runs."""

    class Handler(BaseHTTPRequestHandler):
        def serve(self) -> None:
            parts = urlsplit(self.path)
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            body = json.loads(raw) if raw else None
            status, answer = fake.answer(Called(self.command, parts.path, parse_qs(parts.query), headers, body))
            text = answer if isinstance(answer, str) else json.dumps(answer)
            self.send_response(status)
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        do_GET = do_POST = do_DELETE = serve  # noqa: N815 - the names that http.server looks for

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it so
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        fake = FakeApi(f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield fake
        server.shutdown()
        thread.join()


Cli = Callable[..., Result]


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Cli]:
    """Runs a command line, 100 columns wide, in UTC, against the fake API if the test has one."""
    api_in_use = request.getfixturevalue("api") if "api" in request.fixturenames else None
    url = api_in_use.url if api_in_use else "http://127.0.0.1:9"
    for name, value in {"STEPWELL_URL": url, "COLUMNS": "100", "TZ": "UTC", "USER": "ana", "NO_COLOR": ""}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(typer.testing, "_get_command", COMMAND_OF)
    monkeypatch.setattr(watch, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(exchange, "FIRST_PAUSE_SECONDS", 0)
    monkeypatch.setattr(exchange, "LONGEST_PAUSE_SECONDS", 0)
    time.tzset()

    def invoke(*arguments: str, stdin: str | bytes | None = None) -> Result:
        return CliRunner().invoke(app, list(arguments), input=stdin, prog_name="stepwell")

    yield invoke
    monkeypatch.undo()
    time.tzset()
