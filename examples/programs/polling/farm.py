"""A render farm, in a folder: a job is done once it was asked after often enough."""

from __future__ import annotations

import os
from pathlib import Path


def _folder() -> Path:
    return Path(os.environ.get("FARM_DATA", ".stepwell"))


def submit(video: str) -> str:
    _folder().mkdir(parents=True, exist_ok=True)
    with (_folder() / "submitted").open("a", encoding="utf-8") as file:
        file.write(f"{video}\n")
    return f"job-{video}"


def result_of(job: str) -> str | None:
    """The URL of the video; None while it is being rendered."""
    asked = _folder() / job
    looks = len(asked.read_text(encoding="utf-8")) if asked.exists() else 0
    if looks >= int(os.environ.get("FARM_LOOKS", "3")):
        return f"https://farm.example/{job}.mp4"
    asked.write_text("x" * (looks + 1), encoding="utf-8")
    return None
