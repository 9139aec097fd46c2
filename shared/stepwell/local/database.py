"""The local database file: one SQLite connection per thread, one writer at a time, errors as PortError.

    thread A  ──lock──BEGIN … COMMIT──unlock──
    thread B  ──waits──────────────────lock────BEGIN …      another process: waits on SQLite's own lock (busy_ms)

SQLite's own lock is polled with sleeps of up to 100 ms, so threads of one process queue on a plain lock first.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

from stepwell.errors import InvalidInput, PortError, UserError
from stepwell.local import schema
from stepwell.local.folder import PRIVATE_FILE

Synchronous: TypeAlias = Literal["FULL", "NORMAL"]
Row: TypeAlias = tuple[Any, ...]
Execute: TypeAlias = Callable[[str, Sequence[object]], sqlite3.Cursor]

BUSY_MS = 10_000
STATEMENTS = 256  # prepared statements kept per connection: more than exist

_HINTS = {
    "SQLITE_BUSY": "another process held the file for too long",
    "SQLITE_FULL": "free some space; nothing of this call was written",
    "SQLITE_NOTADB": "point Stepwell at a folder of its own",
    "SQLITE_READONLY": "the data folder must be writable",
    "SQLITE_CANTOPEN": "the data folder must exist and be writable",
}


class _Connection:
    """Closes its connection when its thread ends."""

    def __init__(self, raw: sqlite3.Connection) -> None:
        self.raw = raw

    def __del__(self) -> None:
        self.raw.close()


class _Here(threading.local):
    """Returns this thread's connection, opened on first use."""

    def __init__(self, connect: Callable[[], _Connection]) -> None:
        self.connection = connect()
        self.execute: Execute = self.connection.raw.execute


class Database:
    """A database file, for any number of threads and processes.

    With `synchronous="FULL"` writes survive a power cut, with `NORMAL` only the death of the process.
    """

    def __init__(self, path: str | Path, synchronous: Synchronous = "FULL", busy_ms: int = BUSY_MS) -> None:
        self.path = str(path)
        self._busy_ms = busy_ms
        self._writing = threading.Lock()
        self._opening = threading.Lock()
        self._open: weakref.WeakSet[_Connection] = weakref.WeakSet()
        self._lazy = _Here(lambda: self._connect("NORMAL"))
        self._here = _Here(lambda: self._connect(synchronous)) if synchronous == "FULL" else self._lazy

    def rows(self, sql: str, values: Sequence[object] = ()) -> list[Row]:
        """Executes a read and returns its rows."""
        try:
            return self._here.execute(sql, values).fetchall()
        except (sqlite3.Error, ValueError, OverflowError) as error:
            raise self._problem(error) from error

    def change(self, sql: str, values: Sequence[object]) -> int:
        """Executes one statement in one durable commit. Returns the number of changed rows."""
        try:
            with self._writing:
                return self._here.execute(sql, values).rowcount
        except (sqlite3.Error, ValueError, OverflowError) as error:
            raise self._problem(error) from error

    def change_lazily(self, sql: str, values: Sequence[object]) -> int:
        """Like `change`, but a power cut may undo it unless a durable commit follows; for repeatable writes."""
        try:
            with self._writing:
                return self._lazy.execute(sql, values).rowcount
        except (sqlite3.Error, ValueError, OverflowError) as error:
            raise self._problem(error) from error

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Execute]:
        """Runs several statements in one exclusive durable commit. An exception rolls back."""
        try:
            with self._writing:
                here = self._here
                try:
                    here.execute("BEGIN IMMEDIATE", ())
                    yield here.execute
                    here.execute("COMMIT", ())
                finally:
                    if here.connection.raw.in_transaction:
                        here.connection.raw.rollback()
        except (sqlite3.Error, ValueError, OverflowError) as error:
            raise self._problem(error) from error

    def close(self) -> None:
        """Closes every thread's connection. Later calls raise PortError."""
        with self._opening:
            connections = list(self._open)
        for connection in connections:
            connection.raw.close()

    def _connect(self, synchronous: Synchronous) -> _Connection:
        # SQLite gives its journal and its shared memory the mode of the file. This opens only a new file, because
        # closing a file that is in use releases SQLite's locks on it.
        with contextlib.suppress(OSError):  # the file exists, or SQLite reports below why it cannot be created
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, PRIVATE_FILE))
        try:
            # Each thread uses its own; the check is off because `close` closes all from one thread.
            raw = sqlite3.connect(
                self.path, isolation_level=None, check_same_thread=False, cached_statements=STATEMENTS
            )
        except sqlite3.Error as error:
            raise self._problem(error) from error
        connection = _Connection(raw)
        try:
            raw.execute(f"PRAGMA busy_timeout = {self._busy_ms}")
            self._use_wal(raw)
            raw.execute(f"PRAGMA synchronous = {synchronous}")
            schema.prepare(raw, self.path)
        except sqlite3.Error as error:
            raw.close()
            raise self._problem(error) from error
        except UserError:
            raw.close()
            raise
        with self._opening:
            self._open.add(connection)
        return connection

    def _use_wal(self, raw: sqlite3.Connection) -> None:
        """Enables WAL; retries, because SQLite refuses at once if two processes create the file."""
        end = time.monotonic() + self._busy_ms / 1_000
        while True:
            try:
                raw.execute("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.005)
            else:
                return

    def _problem(self, error: Exception) -> Exception:
        if isinstance(error, sqlite3.Error):
            name = getattr(error, "sqlite_errorname", "") or ""
            hint = next((text for code, text in _HINTS.items() if name.startswith(code)), None)
            return PortError(f"the database {self.path} did not answer: {error}", hint=hint)
        return InvalidInput(f"the database cannot hold this value: {error}", code="not_storable")
