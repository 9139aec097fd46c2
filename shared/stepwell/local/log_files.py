"""The bounded files of a data folder in which the lines of runs are kept: written, read, and rewritten without a run's.

logging ──▶ logs.jsonl ──(full)──▶ logs.jsonl.1        a rewrite: logs.jsonl ──▶ logs.jsonl.new ──▶ logs.jsonl
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout, suppress
from logging.handlers import RotatingFileHandler
from pathlib import Path
from threading import Lock
from typing import Any, TextIO, TypeAlias

from stepwell.errors import InvalidInput, PortError
from stepwell.limits import LOG_FILE_BYTES, LOG_LINE_CHARACTERS
from stepwell.local.folder import LOGS_FILE, PRIVATE_FILE
from stepwell.local.run_logs import OwnFrames, Printed, about_of
from stepwell.runtime.starts.admission import place_in
from stepwell.runtime.stores.log_lines import Asked, LogLine, LogPage

RunIds: TypeAlias = set[str]
_NEW = f"{LOGS_FILE}.new"


@contextmanager
def logging_runs(data: Path) -> Iterator[LogFile]:
    """Keeps the lines of runs in the data folder, and takes what their code prints as such lines."""
    file, root = LogFile(data), logging.getLogger()
    root.addHandler(file)
    try:
        with redirect_stdout(Printed(sys.stdout)):
            yield file
    finally:
        root.removeHandler(file)
        file.close()


class LogFile(RotatingFileHandler):
    """Keeps the newest lines of runs in two files of JSON, of LOG_FILE_BYTES each at most."""

    def __init__(self, data: Path) -> None:
        super().__init__(data / LOGS_FILE, maxBytes=LOG_FILE_BYTES, backupCount=1, encoding="utf-8", delay=True)
        self.setFormatter(OwnFrames())
        self._data = data
        self._last = 0
        self._rewriting = Lock()

    def filter(self, record: logging.LogRecord) -> Any:
        """Takes what is about a run, and nothing else."""
        return bool(about_of(record).run_id) and super().filter(record)

    def format(self, record: logging.LogRecord) -> str:
        about = about_of(record)
        self._last = max(time.time_ns(), self._last + 1)  # the lock of `handle` is held
        line = {"id": self._last, "level": record.levelname.lower(), "run_id": about.run_id, "step": about.step,
                "branch": about.branch, "attempt": about.attempt,
                "message": super().format(record)[:LOG_LINE_CHARACTERS]}  # fmt: skip
        return json.dumps(line)

    def forget(self, gone_of: Callable[[RunIds], RunIds]) -> None:
        """Deletes the lines of those runs that `gone_of` returns of all that have some. Raises PortError.

        A line that a crash has cut is of the run "". One rewrite at a time; whoever logs waits for its end only.
        """
        try:
            with self._rewriting:
                self._forget(gone_of)
        except OSError as error:
            message = f"what deleted runs have logged is still in {self.baseFilename}: {error}"
            raise PortError(message, hint="it is deleted within the hour, or the server says that it cannot") from error

    def _forget(self, gone_of: Callable[[RunIds], RunIds]) -> None:
        (self._data / _NEW).unlink(missing_ok=True)  # a rewrite that a crash has ended
        with _opened(self._data) as files:
            runs = {_run_of(line) for file in files for line in file}
        gone = gone_of(runs)  # which may log
        if not gone:
            return
        with self._still():
            for path in _files(self._data):
                _rewrite(path, gone)

    @contextmanager
    def _still(self) -> Iterator[None]:
        """Whoever logs waits meanwhile; then the file is opened anew."""
        self.acquire()
        try:
            if self.stream is not None:
                self.stream.close()
                self.stream = None  # as before the first line
            yield
        finally:
            self.release()

    def _open(self) -> Any:
        _end_line(Path(self.baseFilename))
        return open(self.baseFilename, self.mode, encoding=self.encoding, opener=_private)


class LocalRunLogs:
    """The RunLogs port over the files of the data folder, whose lines have an order. A cursor is a line's id."""

    def __init__(self, data: Path) -> None:
        self._data = data

    async def read(self, asked: Asked) -> LogPage:
        after = place_in(asked.cursor) if asked.cursor else -1
        if after is None:
            raise InvalidInput("the cursor is of another list", code="bad_cursor", hint="pass next_cursor")
        lines: list[LogLine] = []
        with _opened(self._data) as files:
            for text in (text for file in files for text in file):
                if asked.run_id not in text or _run_of(text) != asked.run_id:
                    continue
                line = _line(json.loads(text))
                if int(line.id) > after and line.at_ms >= asked.since_ms:
                    lines.append(line)
                if len(lines) > asked.limit:
                    return LogPage(lines[:-1], lines[-2].id)
        return LogPage(lines)


def _files(data: Path) -> list[Path]:
    """The older file first. They stay as they are while whoever logs waits."""
    return [path for path in _paths(data) if path.is_file()]


def _paths(data: Path) -> tuple[Path, Path]:
    return data / f"{LOGS_FILE}.1", data / LOGS_FILE


@contextmanager
def _opened(data: Path) -> Iterator[list[TextIO]]:
    """Opens the files as they are at one time, the older one first.

    reader                               rotation
    opens logs.jsonl.1, and reads it
                                         logs.jsonl becomes logs.jsonl.1
    opens logs.jsonl, which is new       the lines between are lost: so both are opened first, and looked at again
    """
    older, newer = _paths(data)
    while True:  # a rotation takes a moment, and a whole file is written before the next one
        with ExitStack() as closing:
            found = {path: closing.enter_context(_open_file(path)) for path in (newer, older)}
            if all(_is_still(path, file) for path, file in found.items()):
                yield [file for file in (found[older], found[newer]) if file is not None]
                return


@contextmanager
def _open_file(path: Path) -> Iterator[TextIO | None]:
    """None if there is no file."""
    try:
        file = path.open(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        yield None
        return
    with file:
        yield file


def _is_still(path: Path, file: TextIO | None) -> bool:
    """Whether the path leads to this file, or to none."""
    try:
        there = path.stat()
    except FileNotFoundError:
        return file is None
    return file is not None and os.path.samestat(there, os.fstat(file.fileno()))


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, PRIVATE_FILE)


def _end_line(path: Path) -> None:
    """Ends a last line that a crash has cut, so that the next one is a line of its own."""
    if not path.is_file() or not path.stat().st_size:
        return
    with path.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        if file.read() != b"\n":
            file.write(b"\n")


def _lines(path: Path) -> Iterator[str]:
    with path.open(encoding="utf-8", errors="replace") as file:
        yield from file


def _rewrite(path: Path, gone: RunIds) -> None:
    """Replaces the file by one without these runs' lines: after a crash there is the old one or the new one, whole."""
    new = path.with_name(_NEW)
    with open(new, "w", encoding="utf-8", opener=_private) as file:
        file.writelines(line for line in _lines(path) if _run_of(line) not in gone)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)


def _run_of(line: str) -> str:
    """The run of a line; "" if the line is not whole."""
    with suppress(ValueError, TypeError, LookupError):
        return str(json.loads(line)["run_id"])
    return ""


def _line(found: dict[str, Any]) -> LogLine:
    at_ms = found["id"] // 1_000_000
    branch = found.get("branch", "")  # lines of an earlier release have none
    return LogLine(str(found["id"]), at_ms, found["level"], found["step"], found["attempt"], found["message"], branch)
