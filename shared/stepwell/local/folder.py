"""Ownership of a data folder by one dev server, which may release the leases that it finds."""

from __future__ import annotations

import os
import secrets
import sys
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from stepwell.errors import Conflict

LOCK_FILE = "owner.lock"
KEY_FILE = "links.key"


@dataclass(frozen=True, slots=True)
class Claim:
    """A folder that this process owns until `close`, or until it ends in any way."""

    path: Path
    descriptor: int

    def close(self) -> None:
        """Releases the folder. Call it once."""
        os.close(self.descriptor)

    def __enter__(self) -> Claim:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def claim_folder(path: str | Path) -> Claim:
    """Creates the folder if needed and claims it. Raises Conflict `folder_in_use` if another process owns it."""
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o644)
    if not _try_lock(descriptor):
        owner = os.read(descriptor, 20).decode(errors="replace").strip()
        os.close(descriptor)
        raise Conflict(
            f"the data folder {folder} is in use by process {owner or 'unknown'}",
            code="folder_in_use",
            hint="stop that `stepwell dev`, or use another folder",
        )
    os.ftruncate(descriptor, 0)
    os.write(descriptor, f"{os.getpid()}\n".encode())
    return Claim(folder, descriptor)


def link_key(folder: Path) -> bytes:
    """Returns the key that signs this folder's links, created once and readable by its owner only."""
    path = folder / KEY_FILE
    if not path.exists():
        beside = path.with_suffix(".new")
        beside.unlink(missing_ok=True)
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(secrets.token_hex(32))
        beside.replace(path)  # complete or absent
    return path.read_bytes()


if sys.platform == "win32":

    def _try_lock(descriptor: int) -> bool:
        """Does nothing: Windows has no flock, so a second dev server goes undetected."""
        return True

else:
    import fcntl

    def _try_lock(descriptor: int) -> bool:
        """Locks the file. The kernel releases the lock with the descriptor, also if the owner is killed."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True
