"""The workflow folders of this process, whose code is users' code."""

from __future__ import annotations

from pathlib import Path

FOLDERS: set[Path] = set()
STEPWELL = str(Path(__file__).parents[2])


def own_place(file: str) -> str | None:
    """Returns the path of a user's source below its workflow folder; None for Stepwell, libraries and Python."""
    folders = (prefix for folder in FOLDERS if file.startswith(prefix := f"{folder}/"))
    place = file[len(max(folders, key=len, default=file)) :]
    return None if not place or file.startswith(STEPWELL) or "site-packages" in place.split("/") else place
