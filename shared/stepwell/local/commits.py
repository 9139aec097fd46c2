"""The commits of this process, for readers who wait for the next one."""

from __future__ import annotations

import threading
from concurrent.futures import Future


class Commits:
    """One future, which everybody who waits shares; nobody who waits costs a commit nothing."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next: Future[None] | None = None

    def next(self) -> Future[None]:
        """Returns a future that is done after the next commit. Ask before you look, so that none is missed."""
        with self._lock:
            self._next = self._next or Future()
            return self._next

    def tell(self) -> None:
        """Ends the waits, after a commit or because the server stops."""
        if self._next is None:
            return
        with self._lock:
            told, self._next = self._next, None
        if told is not None:
            told.set_result(None)
