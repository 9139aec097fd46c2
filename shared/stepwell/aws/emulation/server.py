"""The emulator's process: ministack, with schedules precise to the second and the functions' logs on stderr.

`emulator.Emulator` starts it as a module. It ends with its standard input, so it never outlives its parent.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from functools import lru_cache
from typing import Any

from ministack import app
from ministack.services import dynamodb, lambda_svc, scheduler

SCHEDULE_TICK_SECONDS = 1
EXPRESSIONS_KEPT = 1_000


def main() -> None:
    """Serves until a signal stops it."""
    scheduler._SCHEDULE_TICK_INTERVAL = SCHEDULE_TICK_SECONDS
    app._HEALTH_PATHS = tuple(path for path in app._HEALTH_PATHS if path != "/health")  # an API may have that path
    lambda_svc._emit_lambda_logs = told(lambda_svc._emit_lambda_logs)
    keep_expressions()
    threading.Thread(target=end_with_parent, name="stepwell-parent", daemon=True).start()
    app.main()


def keep_expressions() -> None:
    """Parses each condition once, and not for each item of a partition: a long run's log has thousands."""
    for name in ("_tokenize", "_condition_syntax_error"):
        setattr(dynamodb, name, lru_cache(EXPRESSIONS_KEPT)(getattr(dynamodb, name)))


def end_with_parent() -> None:
    """Ends the process when the parent closes standard input, to which it never writes."""
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGTERM)


def told(emit: Any) -> Any:
    """Wraps the storage of an invocation's output to print it on stderr too."""

    def tell(func: Any, request_id: str, text: str, error: bool, *rest: Any, **more: Any) -> None:
        config = func.get("config") or func
        handler = str(config.get("Handler", "")).split(".")[-2:-1]
        for line in text.splitlines() or (["failed"] if error else []):
            if shown := readable(line):
                print(*handler, shown, file=sys.stderr, flush=True)
        emit(func, request_id, text, error, *rest, **more)

    return tell


def readable(line: str) -> str:
    """Formats a log line for people: level, message and run of a JSON log; nothing for a metric."""
    try:
        entry = json.loads(line)
    except ValueError:
        return line.strip()
    if not isinstance(entry, dict) or "message" not in entry:
        return "" if isinstance(entry, dict) and "_aws" in entry else line
    parts = (entry.get("level"), entry["message"], entry.get("run_id"), entry.get("exception"))
    return " ".join(str(part) for part in parts if part)


if __name__ == "__main__":
    main()
