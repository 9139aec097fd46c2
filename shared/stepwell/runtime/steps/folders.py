"""The workflow folders of this process: whose code is users' code."""

from __future__ import annotations

from pathlib import Path

FOLDERS: set[Path] = set()
STEPWELL = str(Path(__file__).parents[2])


def own_place(file: str) -> str | None:
    """The path of a user's source below its workflow folder. None: it is Stepwell's, a library's or Python's."""
    folders = (prefix for folder in FOLDERS if file.startswith(prefix := f"{folder}/"))
    place = file[len(max(folders, key=len, default=file)) :]
    return None if not place or file.startswith(STEPWELL) or "site-packages" in place.split("/") else place
