"""The short form of a run's id in logs and narrow lists. Every command takes it for the whole id."""

from __future__ import annotations

SHORT_CHARACTERS = 6  # the end, since the beginning of a made id is its time


def short(run_id: str) -> str:
    """The end of a made id; an id of the user's own as it is."""
    return run_id[-SHORT_CHARACTERS:] if run_id.startswith("run_") else run_id
