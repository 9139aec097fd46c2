"""The names of runs' snapshot files."""

from __future__ import annotations

from stepwell.runtime.ports.headers import Header


def name_of(header: Header) -> str:
    """Returns the name of the run's snapshot file: one per run, with its newest state."""
    return f"runs/{header.workflow}/{header.run_id}.jsonl"
