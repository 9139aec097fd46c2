"""The names of runs' snapshot files."""

from __future__ import annotations

from stepwell.runtime.ports.headers import Header


def name_of(header: Header) -> str:
    """One file for each run, whose newest state is in it."""
    return f"runs/{header.workflow}/{header.run_id}.jsonl"
