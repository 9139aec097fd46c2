"""A run whose server is killed once, and served again."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.local.kit import Dev, until


def survive(folder: Path, data: Path, workflow: str, given: object, when: Callable[[], object]) -> dict[str, Any]:
    """Starts a run, kills the server when this holds, starts another on the same data, and returns the ended run."""
    first = Dev(folder, data)
    try:
        assert first.line.startswith("ready "), first.errors
        first.call("POST", f"/workflows/{workflow}/runs", {"run_id": "r1", "input": given})
        until(when, "the moment to kill the server")
    finally:
        first.end(signal.SIGKILL)
    second = Dev(folder, data)
    try:
        until(lambda: second.status("r1") in {"completed", "failed"}, "the end of the run")
        run: dict[str, Any] = second.call("GET", "/runs/r1")[1]
        return run
    finally:
        second.end()
