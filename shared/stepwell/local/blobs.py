"""Large values under their content hash, as files in a folder."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from pathlib import Path

from stepwell.errors import PortError
from stepwell.limits import BLOB_DAYS, DAY_MS, SECOND_MS
from stepwell.local.folder import make_private
from stepwell.runtime.ports import BROKEN_BLOB
from stepwell.runtime.stores.blobs import check_blob, checked_owner, place_of, reference_of


class FolderBlobs:
    """The Blobs port on a folder, with a subfolder for each owner.

    A file gets its name when complete, and never changes, except for the time at which it was last put.
    """

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)
        self._touching = threading.Lock()  # so that no file is put again between the check of its age and its deletion

    async def put(self, data: bytes, owner: str = "") -> str:
        reference = reference_of(data, owner)
        path = self._folder / place_of(reference)
        try:
            if not self._touch(path):
                make_private(path.parent)
                _write_whole(path, data)
        except OSError as error:
            raise PortError(f"the blob {reference} could not be written: {error}") from error
        return reference

    async def get(self, reference: str) -> bytes:
        try:
            data = (self._folder / place_of(reference)).read_bytes()
        except FileNotFoundError as error:
            raise PortError(f"the blob {reference} is not there", code=BROKEN_BLOB) from error
        except OSError as error:
            raise PortError(f"the blob {reference} could not be read: {error}") from error
        return check_blob(data, reference)

    async def link(self, reference: str) -> str:
        return ""

    async def drop(self, owner: str) -> None:
        try:
            shutil.rmtree(self._folder / checked_owner(owner))
        except FileNotFoundError:
            return
        except OSError as error:
            raise PortError(f"the blobs of {owner} could not be deleted: {error}") from error

    async def remove(self, reference: str) -> None:
        try:
            (self._folder / place_of(reference)).unlink(missing_ok=True)
        except OSError as error:
            raise PortError(f"the blob {reference} could not be deleted: {error}") from error

    def expire(self, now_ms: int) -> None:
        """Deletes files older than their owner's days. Raises PortError."""
        try:
            for days in BLOB_DAYS:
                for path in (self._folder / f"days-{days}").glob("*"):
                    with self._touching:
                        if path.stat().st_mtime * SECOND_MS + days * DAY_MS <= now_ms:
                            path.unlink()
        except OSError as error:
            raise PortError(f"old blobs could not be deleted: {error}") from error

    def _touch(self, path: Path) -> bool:
        """Sets the file's time to now. Returns False if there is no such file."""
        try:
            with self._touching:
                os.utime(path)
        except FileNotFoundError:
            return False
        return True


def _write_whole(path: Path, data: bytes) -> None:
    """Writes under a temporary name first, so that a crash leaves no incomplete file."""
    descriptor, unfinished = tempfile.mkstemp(dir=path.parent, prefix=".unfinished-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    except BaseException:
        Path(unfinished).unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)
    _sync_folder(path.parent.parent)


def _sync_folder(folder: Path) -> None:
    """Makes a new name in the folder durable. Windows cannot open folders and does not need it."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
