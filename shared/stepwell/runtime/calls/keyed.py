"""Finds the runs of a start's Idempotency-Key. Their ids are computed from it, so no search is needed."""

from __future__ import annotations

from collections.abc import Sequence

from stepwell.runtime.calls.gathering import gathered_in
from stepwell.runtime.ports import Ports
from stepwell.runtime.starts.keys import id_of_key


async def keyed_ids(ports: Ports, workflow: str, key: str) -> Sequence[str]:
    """Returns the ids of runs that such starts may have made or joined, newest first."""
    run_id = id_of_key(workflow, key)
    return [*(one.payload["run_id"] for one in reversed(await gathered_in(ports, run_id))), run_id]
