"""The dev server as a process of its own, on any free port."""

from __future__ import annotations

import json
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from tests.local.forks import Process, origin

T = TypeVar("T")

DEADLINE_SECONDS = 120.0


class Dev:
    """One server. `url` is where it serves."""

    def __init__(self, folder: Path, data: Path, port: int = 0) -> None:
        self.data = data
        self._errors = data.parent / f"stderr-{time.monotonic_ns()}"
        self.process: Process
        with self._errors.open("wb") as errors:
            self.process = origin().copy(folder, data, port, errors.fileno())
        self.line = self.process.stdout.readline().strip() if self.process.stdout else ""
        self.url = self.line.removeprefix("ready ")

    @property
    def errors(self) -> str:
        return self._errors.read_text()

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        data = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(  # noqa: S310 - our own server
            self.url + path, data, {"content-type": "application/json", **headers}, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=DEADLINE_SECONDS) as reply:  # noqa: S310
                return reply.status, json.loads(reply.read() or b"null")
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read() or b"null")

    def status(self, run_id: str) -> str:
        return str(self.call("GET", f"/runs/{run_id}")[1].get("status"))

    def end(self, kind: int = signal.SIGTERM) -> int:
        """Ends the process and returns its exit status; 9 less than nothing after a kill."""
        if self.process.poll() is None:
            self.process.send_signal(kind)
        status = self.process.wait(DEADLINE_SECONDS)
        if self.process.stdout:
            self.process.stdout.close()
        return status


def until(look: Callable[[], T], what: str) -> T:
    """The first thing true that `look` gives; fails when it gives none in time."""
    end = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < end:
        if found := look():
            return found
        time.sleep(0.02)
    raise AssertionError(f"not in time: {what}")
