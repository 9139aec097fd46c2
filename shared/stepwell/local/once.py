"""A step's failure on the screen: where it ends the run, the run's own line tells it, and the step's is left out.

The worker logs the failure before the rules of the workflow decide. So the line is held until they have: until the
run's line tells the same, the next attempt begins, or the message is handled. If the step is tried again, its line says
when.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from copy import copy
from dataclasses import dataclass, field
from typing import cast

from stepwell.runtime.executor import STEP_FAILED
from stepwell.runtime.log.action_log import TRIED_AGAIN


@dataclass(slots=True)
class _Lines:
    """The lines that one message has made and that are not told yet."""

    held: list[tuple[logging.Handler, logging.LogRecord]] = field(default_factory=list)
    is_over: bool = False


_LINES: ContextVar[_Lines | None] = ContextVar("lines", default=None)


class HoldsFailures(logging.Filter):
    """Holds the failures of steps that a handler would tell. One with a traceback says more than the run's line."""

    def __init__(self, handler: logging.Handler) -> None:
        super().__init__()
        self._handler = handler

    def filter(self, record: logging.LogRecord) -> bool:
        lines = _LINES.get()
        if lines is None or lines.is_over:
            return True
        if record.msg == TRIED_AGAIN:
            return not _is_told_with(lines, self._handler, record)
        if record.msg != STEP_FAILED or record.exc_info:
            return True
        lines.held.append((self._handler, record))
        return False


@contextmanager
def one_message() -> Iterator[None]:
    """Tells at its end what is still held. No token is kept: the rest of a long attempt moves to another context."""
    before, lines = _LINES.get(), _Lines()
    _LINES.set(lines)
    try:
        yield
    finally:
        _LINES.set(before)
        lines.is_over = True
        _tell(lines)


def tell_held() -> None:
    """Tells the failures that are held: the run goes on after them."""
    if (lines := _LINES.get()) is not None:
        _tell(lines)


def leave_out(run_id: str, told: str) -> None:
    """Forgets the failures of this run that `told` has, which is the run's own line."""
    if (lines := _LINES.get()) is not None:
        lines.held[:] = [one for one in lines.held if not _is_in(one[1], run_id, told)]


def _is_told_with(lines: _Lines, handler: logging.Handler, again: logging.LogRecord) -> bool:
    """Tells the failure of the step that is tried again, and when it is; returns whether it was held."""
    run_id, node, *when = cast(tuple[object, ...], again.args)
    for at, (its, record) in enumerate(lines.held):
        if its is handler and isinstance(record.args, tuple) and record.args[:2] == (run_id, node):
            whole = copy(record)
            whole.msg, whole.args = f"{STEP_FAILED}; tried again in %.1f s (attempt %s)", (*record.args, *when)
            lines.held[at] = (handler, whole)
            _tell(lines)
            return True
    return False


def _is_in(record: logging.LogRecord, run_id: str, told: str) -> bool:
    match record.args:
        case (of_run, _, kind, message):
            return of_run == run_id and f"{kind}: {message}" in told
    return False


def _tell(lines: _Lines) -> None:
    while lines.held:
        handler, record = lines.held.pop(0)
        handler.acquire()
        try:
            handler.emit(record)
        finally:
            handler.release()
