"""The workflow folders of this process, whose code is users' code."""

from __future__ import annotations

from pathlib import Path

FOLDERS: set[str] = set()
STEPWELL = str(Path(__file__).parents[2])


def own_place(file: str) -> str | None:
    """Returns the path of a user's source below its workflow folder; None for Stepwell, libraries and Python."""
    if not FOLDERS or file.startswith(STEPWELL):
        return None
    above = file
    while above := above.rpartition("/")[0]:  # a path has few parts, a process of tests hundreds of folders
        if above in FOLDERS:
            place = file[len(above) + 1 :]
            return None if "site-packages" in place.split("/") else place
    return None
