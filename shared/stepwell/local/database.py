"""The local database file: one SQLite connection per thread, one writer at a time, errors as PortError.

    thread A  ──lock──BEGIN … COMMIT──unlock──
    thread B  ──waits──────────────────lock────BEGIN …      another process: waits on SQLite's own lock (busy_ms)
    thread C  ────waits─────────────────── its change was in B's commit

SQLite's own lock is polled with sleeps of up to 100 ms, so threads of one process queue on a plain lock first. Whoever
gets it commits the single changes of all who wait, because the disk takes as long for ten as for one.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Literal, TypeAlias

from stepwell.errors import InvalidInput, PortError, UserError
from stepwell.local import schema
from stepwell.local.folder import PRIVATE_FILE
from stepwell.runtime.steps.batons import away

Synchronous: TypeAlias = Literal["FULL", "NORMAL"]
Row: TypeAlias = tuple[Any, ...]
Values: TypeAlias = Sequence[object] | Mapping[str, object]  # for `?`, or by name for `:name`
Execute: TypeAlias = Callable[[str, Values], sqlite3.Cursor]

BUSY_MS = 10_000
STATEMENTS = 256  # prepared statements kept per connection: more than exist

_REPEATED: ContextVar[Database | None] = ContextVar("repeated", default=None)

_HINTS = {
    "SQLITE_BUSY": "another process held the file for too long",
    "SQLITE_FULL": "free some space; nothing of this call was written",
    "SQLITE_NOTADB": "point Stepwell at a folder of its own",
    "SQLITE_READONLY": "the data folder must be writable",
    "SQLITE_CANTOPEN": "the data folder must exist and be writable",
}


class _Connection(sqlite3.Connection):
    """Closes itself when its thread ends: Python warns of a connection that is left open."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self.reading = threading.Lock()  # to close what another thread executes crashes the process

    def __del__(self) -> None:
        with contextlib.suppress(sqlite3.ProgrammingError):  # it could not be opened
            self.close()


class _Change:
    """A statement to execute, and its outcome."""

    __slots__ = ("_sql", "_values", "count", "error", "is_done")

    def __init__(self, sql: str, values: Values) -> None:
        self._sql, self._values = sql, values
        self.count, self.is_done = 0, False  # done: committed, or its error is known
        self.error: Exception | None = None

    def make(self, execute: Execute) -> None:
        try:
            self.count, self.error = execute(self._sql, self._values).rowcount, None
        except (sqlite3.Error, ValueError, OverflowError) as error:
            self.error = error


class _Here(threading.local):
    """This thread's connection, opened on first use."""

    def __init__(self, connect: Callable[[], _Connection]) -> None:
        self.connection = connect()
        self.execute: Execute = self.connection.execute


class Database:
    """A database file, for any number of threads and processes.

    With `synchronous="FULL"` writes survive a power cut, with `NORMAL` only the death of the process.
    """

    def __init__(self, path: str | Path, synchronous: Synchronous = "FULL", busy_ms: int = BUSY_MS) -> None:
        self.path = str(path)
        self._busy_ms = busy_ms
        self._writing = threading.Lock()
        self._asked: deque[_Change] = deque()
        self._disk_seconds = 0.0  # that a durable commit takes: an average of the last ones
        self._opening = threading.Lock()
        self._is_prepared = False  # by the first connection: the file keeps its tables and the kind of its journal
        self._is_closed = False
        self._open: weakref.WeakSet[_Connection] = weakref.WeakSet()
        self._lazy = _Here(lambda: self._connect("NORMAL"))
        self._here = _Here(lambda: self._connect(synchronous)) if synchronous == "FULL" else self._lazy

    @contextlib.contextmanager
    def repeated(self) -> Iterator[None]:
        """Within, a message of this file is handled. What is written for it need not wait for the disk; records do:

        record ══ status ── wake ── delete      a power cut undoes the last of these; with the first that it undoes
                │ on the disk                   the message is there again, and what is missing is written anew
        """
        outside = _REPEATED.set(self)
        try:
            yield
        finally:
            _REPEATED.reset(outside)

    @property
    def comes_again(self) -> bool:
        """Whether what is written here and now is written again, should a power cut undo it: write it `lazily`."""
        return _REPEATED.get() is self

    def rows(self, sql: str, values: Values = ()) -> list[Row]:
        """Executes a read and returns its rows."""
        try:
            with self._here.connection.reading:
                return self._here.execute(sql, values).fetchall()
        except (sqlite3.Error, ValueError, OverflowError) as error:
            raise self._problem(error) from error

    def change(self, sql: str, values: Values, *, lazily: bool = False) -> int:
        """Executes one statement in one commit. Returns the number of changed rows.

        `lazily`: a power cut may undo it unless a durable commit follows, which brings all before it; for repeatable
        writes.
        """
        change = _Change(sql, values)
        if lazily:
            with self._writing:
                change.make(self._lazy.execute)
        else:
            self._asked.append(change)
            with away(self._disk_seconds), self._writing:
                if not change.is_done:  # in another's commit
                    self._commit(change)
        if change.error is not None:
            raise self._problem(change.error) from change.error
        return change.count

    def _commit(self, own: _Change) -> None:
        """Makes this change and all that wait in one durable commit. A value that one cannot hold fails that one."""
        began = time.perf_counter()
        others = [self._asked.popleft() for _ in range(len(self._asked))]
        changes = [own, *(one for one in others if one is not own)]  # who took it before may have been interrupted
        try:
            if len(changes) > 1:
                self._make_together(changes)
            else:
                own.make(self._here.execute)
        except (sqlite3.Error, ValueError, OverflowError) as error:
            for change in changes:
                change.error = error
        for change in changes:
            change.is_done = True
        self._disk_seconds += (time.perf_counter() - began - self._disk_seconds) / 8

    def _make_together(self, changes: Sequence[_Change]) -> None:
        with self._exclusively(self._here) as execute:
            for change in changes:
                change.make(execute)
                if change.error is not None and not self._here.connection.in_transaction:
                    raise change.error  # such as a full disk: SQLite has undone all of them

    @contextlib.contextmanager
    def transaction(self, *, lazily: bool = False) -> Iterator[Execute]:
        """Runs several statements in one exclusive commit. An exception rolls back. `lazily` as in `change`."""
        try:
            waiting = contextlib.nullcontext() if lazily else away(self._disk_seconds)
            with waiting, self._writing, self._exclusively(self._lazy if lazily else self._here) as execute:
                yield execute
        except (sqlite3.Error, ValueError, OverflowError) as error:
            raise self._problem(error) from error

    @contextlib.contextmanager
    def _exclusively(self, here: _Here) -> Iterator[Execute]:
        """Commits what is executed, or rolls back."""
        try:
            here.execute("BEGIN IMMEDIATE", ())
            yield here.execute
            here.execute("COMMIT", ())
        finally:
            if here.connection.in_transaction:
                here.connection.rollback()

    def compact(self) -> None:
        """Rewrites the file without its free pages, and empties its journal; others wait meanwhile."""
        try:
            with self._writing:
                self._here.execute("VACUUM", ())
                self._here.execute("PRAGMA wal_checkpoint(TRUNCATE)", ()).fetchall()
        except sqlite3.Error as error:
            raise self._problem(error) from error

    def close(self) -> None:
        """Closes every thread's connection, after what it executes now. Later calls raise PortError."""
        with self._opening:
            self._is_closed = True
            connections = list(self._open)
        with self._writing:
            for connection in connections:
                with connection.reading:
                    connection.close()

    def _connect(self, synchronous: Synchronous) -> _Connection:
        # SQLite gives its journal and its shared memory the mode of the file. This opens only a new file, because
        # closing a file that is in use releases SQLite's locks on it.
        with contextlib.suppress(OSError):  # the file exists, or SQLite reports below why it cannot be created
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, PRIVATE_FILE))
        try:
            # Each thread uses its own; the check is off because `close` closes all from one thread.
            connection = sqlite3.connect(
                self.path, isolation_level=None, check_same_thread=False, cached_statements=STATEMENTS,
                factory=_Connection,
            )  # fmt: skip
        except sqlite3.Error as error:
            raise self._problem(error) from error
        try:
            connection.execute(f"PRAGMA busy_timeout = {self._busy_ms}")
            connection.execute(f"PRAGMA synchronous = {synchronous}")
            if not self._is_prepared:
                self._use_wal(connection)
                schema.prepare(connection, self.path)
                self._is_prepared = True
        except sqlite3.Error as error:
            connection.close()
            raise self._problem(error) from error
        except UserError:
            connection.close()
            raise
        with self._opening:
            if self._is_closed:
                raise self._problem(sqlite3.ProgrammingError("Cannot operate on a closed database."))
            self._open.add(connection)
        return connection

    def _use_wal(self, connection: sqlite3.Connection) -> None:
        """Enables WAL; retries, because SQLite refuses at once if two processes create the file."""
        end = time.monotonic() + self._busy_ms / 1_000
        while True:
            try:
                connection.execute("PRAGMA journal_mode = WAL")
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
            code = "disk_full" if name.startswith("SQLITE_FULL") else None
            return PortError(f"the database {self.path} did not answer: {error}", code=code, hint=hint)
        return InvalidInput(f"the database cannot hold this value: {error}", code="not_storable")
