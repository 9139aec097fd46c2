"""Keeps what users' code prints, and what the engine logs of it, out of a command's own answer."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from io import TextIOBase
from traceback import format_tb

_RUN = re.compile(r"\b(simulated-\d+|run_[0-9a-f]+)\b")  # the ids of simulated runs and their children


class _Once(TextIOBase):
    """Prints each different line once, on stderr. `end` prints the line that is not finished."""

    def __init__(self) -> None:
        self._seen, self._begun = set[str](), ""

    def write(self, text: str) -> int:
        *lines, self._begun = (self._begun + text).split("\n")
        for line in lines:
            if line not in self._seen:
                self._seen.add(line)
                print(line, file=sys.stderr)
        return len(text)

    def end(self) -> None:
        if self._begun:
            self.write("\n")


class _OnceLogged(logging.Filter):
    """Lets each message pass once, with its traceback. The id of a simulated run makes no difference."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: set[tuple[str, ...]] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        frames = format_tb(record.exc_info[2]) if record.exc_info else []
        told = (_RUN.sub("", record.getMessage()), *frames)
        is_new = told not in self._seen
        self._seen.add(told)
        return is_new


@contextmanager
def aside() -> Iterator[None]:
    """Prints on stderr, and logs nothing of failures: the command's answer tells them."""
    logger = logging.getLogger("stepwell.worker")
    was, logger.disabled = logger.disabled, True
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        logger.disabled = was


@contextmanager
def each_once() -> Iterator[None]:
    """Keeps standard output for the command's own answer. What steps print and log comes once, on stderr."""
    last, only, out = logging.lastResort, _OnceLogged(), _Once()
    if last is not None:
        last.addFilter(only)
    try:
        with redirect_stdout(out):
            yield
    finally:
        out.end()
        if last is not None:
            last.removeFilter(only)
