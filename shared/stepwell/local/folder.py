"""Ownership of a data folder by one dev server, which may release the leases that it finds.

Only its owner may read the folder: it holds inputs, results, webhook bodies and the key that signs links.
"""

from __future__ import annotations

import logging
import os
import secrets
import stat
import sys
from pathlib import Path
from types import TracebackType

from stepwell.errors import Conflict
from stepwell.values import dataclass

log = logging.getLogger("stepwell.dev")

LOCK_FILE = "owner.lock"
KEY_FILE = "links.key"
_SERVES = "serves"  # behind the id of an owner that empties the file as it ends: those of older releases left their ids
LOGS_FILE = "logs.jsonl"
PRIVATE_FOLDER, PRIVATE_FILE = 0o700, 0o600
# The files and folders of Stepwell in a data folder; other files in it are left alone.
OURS = (LOCK_FILE, KEY_FILE, f"{LOGS_FILE}*", "stepwell.db*", "letters.db*", "blobs", "blobs/**/*", "runs", "runs/**/*")


@dataclass(frozen=True, slots=True)
class Claim:
    """A folder that this process owns until `close`, or until it ends in any way."""

    path: Path
    descriptor: int

    def holds(self) -> bool:
        """Returns False once somebody removed the folder or put another one in its place: what is written is lost."""
        try:
            return os.path.samestat((self.path / LOCK_FILE).stat(), os.fstat(self.descriptor))
        except (FileNotFoundError, NotADirectoryError):
            return False

    def close(self) -> None:
        """Releases the folder: it has no owner then. Call it once."""
        os.ftruncate(self.descriptor, 0)
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
    folder.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
    descriptor = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT, PRIVATE_FILE)
    taken = not _try_lock(descriptor)
    owner, _, mark = os.read(descriptor, 40).decode(errors="replace").strip().partition(" ")
    if taken:
        os.close(descriptor)
        raise Conflict(
            f"the data folder {folder} is in use by process {owner or 'unknown'}",
            code="folder_in_use",
            hint="end that `stepwell dev`, or keep other data: stepwell dev --data DIR",
        )
    if mark == _SERVES:
        log.warning("the last server here, process %s, was killed, or its machine stopped; its runs go on", owner)
    os.ftruncate(descriptor, 0)
    os.lseek(descriptor, 0, os.SEEK_SET)
    os.write(descriptor, f"{os.getpid()} {_SERVES}\n".encode())
    _keep_private(folder)
    return Claim(folder, descriptor)


def make_private(folder: Path) -> None:
    """Creates a folder below the data folder, and its parents, for the owner only."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(PRIVATE_FOLDER, exist_ok=True)


def _keep_private(folder: Path) -> None:
    """Removes the rights of others on the folder and its contents, which an older release may have left."""
    try:
        for path in (folder, *(path for pattern in OURS for path in folder.glob(pattern))):
            mode = path.lstat().st_mode
            if not stat.S_ISLNK(mode) and mode & 0o077:
                path.chmod(PRIVATE_FOLDER if stat.S_ISDIR(mode) else PRIVATE_FILE)
    except OSError as error:
        log.warning("others may read the data folder %s: %s; change its mode yourself", folder, error)


def link_key(folder: Path) -> bytes:
    """Returns the key that signs this folder's links, created once and readable by its owner only."""
    path = folder / KEY_FILE
    if not path.exists():
        beside = path.with_suffix(".new")
        beside.unlink(missing_ok=True)
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE)
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
