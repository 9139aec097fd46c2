"""Batons: of the messages that one process handles, one computes, because Python lets no two of them do so.

Threads that want to compute all at once take the interpreter from each other every few milliseconds: they get no
further for it, and steps of microseconds seem to take long. So each waits for the baton before it takes a message, and
passes it on while it waits for a message, a slow disk or a step; for a quick disk only after a long turn.

     message 1   computes ── waits for the disk ──────────── computes ── ends
     message 2             └ computes ── its step takes long ──────────────────
     message 3                          └ computes ────────

Only the order depends on it: passing it on too early costs time, and no more.
"""

from __future__ import annotations

import threading
import time
from contextlib import AbstractContextManager, nullcontext
from math import inf

QUICK_SECONDS = 0.001  # of a wait; having another thread compute meanwhile costs about a tenth of that, each time
TURN_SECONDS = 0.02  # who has computed for so long passes the baton on even for a quick wait


class Baton:
    """The right of one thread to compute, until it is given up. Any thread may do that."""

    def __init__(self, free: threading.Lock) -> None:
        """`free`: the lock of all who share the baton."""
        self._free = free
        self._held: list[None] = []  # has one item while it is held: removing that is atomic
        self._is_given_up = False
        self._since = 0.0  # when it was taken

    def take(self) -> None:
        """Waits until nobody else computes."""
        if self._is_given_up:
            return
        self._free.acquire()
        self._held.append(None)
        self._since = time.monotonic()
        if self._is_given_up:  # given up meanwhile
            self._pass_on()

    def give_up(self) -> None:
        """Lets another thread compute. This one does not take the baton again."""
        self._is_given_up = True
        self._pass_on()

    def pays(self, wait_seconds: float) -> bool:
        """Tells whether to pass it on for a wait of so long."""
        return wait_seconds > QUICK_SECONDS or time.monotonic() - self._since > TURN_SECONDS

    def __enter__(self) -> None:
        """Lets another thread compute while this one waits for something."""
        self._pass_on()

    def __exit__(self, *_: object) -> None:
        self.take()

    def _pass_on(self) -> None:
        try:
            self._held.pop()
        except IndexError:
            return
        self._free.release()


class _Here(threading.local):
    baton: Baton | None = None


_HERE, _WITHOUT = _Here(), nullcontext()


def compute_with(baton: Baton | None) -> None:
    """Has this thread compute from now on, once it has the baton. None: without a baton."""
    _HERE.baton = baton
    if baton is not None:
        baton.take()


def away(wait_seconds: float = inf) -> AbstractContextManager[None]:
    """Returns a context in which this thread waits for the disk or a step. Without a baton, it does nothing."""
    baton = _HERE.baton
    return baton if baton is not None and baton.pays(wait_seconds) else _WITHOUT
