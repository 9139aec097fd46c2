"""The signals that end a server on this machine, and the word about them: a server that ends says why."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

log = logging.getLogger("stepwell.dev")

Act: TypeAlias = Callable[[signal.Signals], None]

# SIGHUP comes when a terminal is closed. Windows has none.
_ENDING = tuple(kind for kind in signal.Signals if kind.name in {"SIGINT", "SIGTERM", "SIGHUP"})


@contextmanager
def on_signals(act: Act) -> Iterator[None]:
    """Calls `act` with a signal that ends a server. Under nohup, SIGHUP does not. Only the main thread gets signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    kinds = [kind for kind in _ENDING if kind.name != "SIGHUP" or signal.getsignal(kind) is not signal.SIG_IGN]
    before = {kind: signal.signal(kind, lambda number, _: act(signal.Signals(number))) for kind in kinds}
    try:
        yield
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)


def end_at_once(kind: signal.Signals) -> None:
    """Ends the process: it does not serve yet, or it is about to end."""
    log.warning("ended by %s", kind.name)
    raise SystemExit(128 + kind)


def say(line: str) -> None:
    """Prints a line for whoever started the server. That it cannot be written does not end the server."""
    try:
        print(line, flush=True)
    except OSError as error:
        log.warning("%s; nobody reads the standard output: %s", line, error)
        with open(os.devnull, "w", encoding="utf-8") as nowhere:  # or Python fails to write the rest when it ends
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
