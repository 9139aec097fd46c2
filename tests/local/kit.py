"""The dev server as a process of its own, on any free port."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

DEADLINE_SECONDS = 120.0
_SERVE = """
import sys
from pathlib import Path
from stepwell.errors import StepwellError
from stepwell.local.dev import serve
try:
    status = serve(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
except StepwellError as error:  # as the command line does
    print(error, file=sys.stderr)
    status = 2
sys.exit(status)
"""


class Dev:
    """One server. `url` is where it serves."""

    def __init__(self, folder: Path, data: Path, port: int = 0) -> None:
        shared = Path(__file__).resolve().parents[2] / "shared"
        self.data = data
        self._errors = data.parent / f"stderr-{time.monotonic_ns()}"
        with self._errors.open("wb") as errors:
            self.process = subprocess.Popen(  # noqa: S603 - this Python, these paths
                [sys.executable, "-c", _SERVE, str(folder), str(data), str(port)],
                stdout=subprocess.PIPE, stderr=errors, text=True, env={**os.environ, "PYTHONPATH": str(shared)},
            )  # fmt: skip
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
