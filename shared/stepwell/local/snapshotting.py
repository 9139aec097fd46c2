"""Snapshots on this machine: files in the data folder, written right after a change of a run's status."""

from __future__ import annotations

import logging
import os
import tempfile
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

from stepwell.errors import PortError, StepwellError
from stepwell.local.database import Database
from stepwell.local.folder import make_private
from stepwell.local.sqlite_store import SqliteStore
from stepwell.runtime.calls.snapshots import may_be_due
from stepwell.runtime.ports.headers import Header, StatusChange

_logger = logging.getLogger("stepwell.snapshots")

Keep = Callable[[Header], Awaitable[object]]


class FolderFiles:
    """Snapshot files of a folder. A file gets its name when complete."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def write(self, name: str, lines: AsyncIterator[str]) -> None:
        path = self._folder / name
        try:
            make_private(path.parent)
            descriptor, made = tempfile.mkstemp(prefix=".", dir=path.parent)
            try:
                with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as file:
                    async for line in lines:
                        file.write(line)
                Path(made).replace(path)
            finally:
                Path(made).unlink(missing_ok=True)
        except OSError as error:
            raise PortError(f"the snapshot {name} could not be written: {error}") from error

    async def drop(self, name: str) -> None:
        try:
            (self._folder / name).unlink(missing_ok=True)
        except OSError as error:
            raise PortError(f"the snapshot {name} could not be deleted: {error}") from error


class SnapshottingStore(SqliteStore):
    """The store, which saves a run's snapshot after a change of its status. A failed snapshot fails no run."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.keep: Keep | None = None
        self._one_at_a_time = (
            threading.Lock()
        )  # each snapshot has the current log, so the last one written is the newest

    async def change_status(self, change: StatusChange) -> bool:
        changed = await super().change_status(change)
        if self.keep is not None and may_be_due(change.status):
            # Even if the status had changed before, because the earlier process may have died before the snapshot.
            await self._keep(change.run_id, self.keep)
        return changed

    async def _keep(self, run_id: str, keep: Keep) -> None:
        header = await self.get_run(run_id)
        try:
            with self._one_at_a_time:
                if header is not None:
                    await keep(header)
        except StepwellError as error:
            _logger.warning("no snapshot of run %s: %s", run_id, error)
