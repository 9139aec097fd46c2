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
        return (await self.changed(change))[0]

    async def changed(self, change: StatusChange) -> tuple[bool, Header | None]:
        """Whether it changed, and the header after that, where it was read for the snapshot."""
        changed = await super().change_status(change)
        if self.keep is None or not may_be_due(change.status):
            return changed, None
        # Even if the status had changed before, because the earlier process may have died before the snapshot.
        header = await self.get_run(change.run_id)
        await self._keep(change.run_id, header, self.keep)
        return changed, header

    async def _keep(self, run_id: str, header: Header | None, keep: Keep) -> None:
        try:
            with self._one_at_a_time:
                if header is not None:
                    await keep(header)
        except StepwellError as error:
            _logger.warning("no snapshot of run %s: %s", run_id, error)
