"""The error for a file that somebody named and that cannot be read."""

from __future__ import annotations

from pathlib import Path

from stepwell.errors import UserError
from stepwell.os_errors import path_hint


def unread(file: Path | str, error: OSError | UnicodeDecodeError) -> UserError:
    """Returns the error, with the path once."""
    of_system = error if isinstance(error, OSError) else None
    why = of_system.strerror.lower() if of_system and of_system.strerror else str(error)
    return UserError(f"cannot read {file}: {why}", code="unreadable", hint=path_hint(of_system) if of_system else None)
