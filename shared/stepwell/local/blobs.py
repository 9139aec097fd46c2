"""Large values under the hash of their content: as files in a folder, or in memory."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from pathlib import Path

from stepwell.errors import PortError
from stepwell.runtime.ports import BROKEN_BLOB

_REFERENCE = re.compile(r"sha256:([0-9a-f]{64})")


def reference_of(data: bytes) -> str:
    """sha256:<hex> of the content."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


class FolderBlobs:
    """The Blobs port on a folder. A file is complete when it has its name; it never changes afterwards."""

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)

    async def put(self, data: bytes) -> str:
        reference = reference_of(data)
        path = self._path(reference)
        try:
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                _write_whole(path, data)
        except OSError as error:
            raise PortError(f"the blob {reference} could not be written: {error}") from error
        return reference

    async def get(self, reference: str) -> bytes:
        try:
            data = self._path(reference).read_bytes()
        except FileNotFoundError as error:
            raise PortError(f"the blob {reference} is not there", code=BROKEN_BLOB) from error
        except OSError as error:
            raise PortError(f"the blob {reference} could not be read: {error}") from error
        if reference_of(data) != reference:
            raise PortError(f"the blob {reference} is damaged", code=BROKEN_BLOB, hint="its file has another hash")
        return data

    def _path(self, reference: str) -> Path:
        """A reference comes out of a record: what is not a hash must never become a path."""
        match = _REFERENCE.fullmatch(reference)
        if match is None:
            message = f"not a blob's reference: {reference[:100]!r}"
            raise PortError(message, code=BROKEN_BLOB, hint="expected sha256:<64 hex digits>")
        digest = match[1]
        return self._folder / digest[:2] / digest


class MemoryBlobs:
    """The Blobs port on a dictionary."""

    def __init__(self) -> None:
        self._blobs: dict[str, bytes] = {}

    async def put(self, data: bytes) -> str:
        reference = reference_of(data)
        self._blobs[reference] = bytes(data)
        return reference

    async def get(self, reference: str) -> bytes:
        data = self._blobs.get(reference)
        if data is None:
            raise PortError(f"the blob {reference[:100]!r} is not there", code=BROKEN_BLOB)
        return data


def _write_whole(path: Path, data: bytes) -> None:
    """Under another name first, so that a crash leaves no file that looks complete and is not."""
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
    """Makes a new name in the folder durable. Windows cannot open folders, and needs no such call."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
