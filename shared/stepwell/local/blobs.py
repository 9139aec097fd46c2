"""Large values under their content hash, as files in a folder or in memory."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from pathlib import Path

from stepwell.errors import PortError

_REFERENCE = re.compile(r"sha256:([0-9a-f]{64})")


def reference_of(data: bytes) -> str:
    """Returns sha256:<hex> of the content."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


class FolderBlobs:
    """The Blobs port on a folder. A file gets its name when complete, and never changes."""

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
        except OSError as error:
            raise PortError(f"the blob {reference} could not be read: {error}") from error
        if reference_of(data) != reference:
            raise PortError(f"the blob {reference} is damaged", hint="its file's content has another hash")
        return data

    def _path(self, reference: str) -> Path:
        """Converts a reference to a path. It must be a hash, because it comes out of a record."""
        match = _REFERENCE.fullmatch(reference)
        if match is None:
            raise PortError(f"not a blob reference: {reference[:100]!r}", hint="expected sha256:<64 hex digits>")
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
            raise PortError(f"the blob {reference[:100]!r} does not exist")
        return data


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
