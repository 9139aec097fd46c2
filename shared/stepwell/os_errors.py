"""Errors of the operating system that a person can do something about, as errors of Stepwell."""

from __future__ import annotations

import errno
import re
from collections.abc import Mapping
from pathlib import Path

from stepwell.errors import StepwellError, UserError

FULL_HINT = "free some space (df -h shows how much each disk has), then run the same command again"
_FULL = re.compile(r"No space left on device|ENOSPC|database or disk is full")
_NO_PERMISSION = "ls -ld shows whose it is; choose a folder of your own, or change its mode"
_KNOWN: Mapping[int, tuple[str, str]] = {
    errno.ENOSPC: ("disk_full", FULL_HINT),
    errno.EDQUOT: ("disk_full", FULL_HINT),
    errno.EACCES: ("no_permission", _NO_PERMISSION),
    errno.EPERM: ("no_permission", _NO_PERMISSION),
    errno.EROFS: ("no_permission", "this disk takes no writes: choose a folder on another one"),
}

_OF_PATHS: Mapping[int, tuple[str, str]] = {
    errno.ENOENT: ("no_such_file", "look for a misspelt name in this path; ls shows what is there"),
    errno.ENOTDIR: ("not_a_folder", "a part of this path is a file: choose another place"),
    errno.EISDIR: ("not_a_file", "this is a folder: name a file in it"),
    errno.ENAMETOOLONG: ("bad_path", "choose a shorter name"),
    errno.ELOOP: ("bad_path", "its links lead to themselves: ls -l shows where each leads"),
    errno.EEXIST: ("not_a_folder", "a file has this name: choose another one"),
}


def explained(error: OSError, place: Path | None = None) -> StepwellError | None:
    """Returns the error with its code and a hint; None for an error that means nothing to a person.

    `place`: the file, of which a failed write says nothing itself.
    """
    if error.errno is None or error.errno not in _KNOWN:
        return None
    code, hint = _KNOWN[error.errno]
    what = "cannot write" if code == "disk_full" else "no access to"
    where = error.filename or place or "a file"
    return UserError(f"{what} {where}: {(error.strerror or code).lower()}", code=code, hint=hint)


def path_hint(error: OSError) -> str | None:
    """Returns what to do about a path that leads nowhere; None for another error."""
    return None if error.errno is None or error.errno not in _OF_PATHS else _OF_PATHS[error.errno][1]


def misplaced(error: OSError) -> StepwellError | None:
    """Returns the error for a path that leads nowhere; None for another error, or one without its path."""
    if error.errno == errno.ENOENT and not error.filename and not _is_here():
        return UserError("the current folder is not there any more", code="no_such_folder",
                         hint="change to a folder that is there, for example: cd ~")  # fmt: skip
    if error.errno is None or error.errno not in _OF_PATHS or not error.filename:
        return None
    code, hint = _OF_PATHS[error.errno]
    return UserError(
        f"cannot use {str(error.filename)[:200]}: {(error.strerror or code).lower()}", code=code, hint=hint
    )


def _is_here() -> bool:
    """Returns whether the current folder exists."""
    try:
        return Path.cwd().is_dir()
    except FileNotFoundError:
        return False


def full_disk(said: str) -> StepwellError | None:
    """Returns the error for a program that ended because the disk is full; None if its output does not say so."""
    line = next((line.strip() for line in reversed(said.splitlines()) if _FULL.search(line)), "")
    return UserError(f"the disk is full: {line}", code="disk_full", hint=FULL_HINT) if line else None
