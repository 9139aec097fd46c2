"""What every program of this folder does when it is started: a round of a case for each line that it reads.

{"case": "chain", "size": 10, "times": 50}   ->   {"wall_ms": 1.1, "cpu_ms": 0.9}      of one step, branch or run
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from time import perf_counter
from typing import Protocol


class Peer(Protocol):
    """One way to run durable work. Each method does it once, and returns when the work has ended."""

    name: str
    durability: str

    def chain(self, steps: int) -> None:
        """So many steps that do nothing, one after the other."""

    def fan(self, width: int) -> None:
        """So many branches of one small step, and their join."""

    def event(self) -> float:
        """Wall seconds from an event for a run that waits to the end of that run, known to the caller."""

    def late(self) -> float:
        """Wall seconds by which a start with a sleep of one second took longer than the sleep."""

    def tail(self) -> float:
        """Wall seconds from the end of a run's only step, which returns the time, to its result at the caller."""

    def cpu_seconds(self) -> float:
        """CPU time used so far, by all processes that do the work but not by those that only ask for it."""


def serve(peer: Peer, import_ms: float) -> None:
    """Answers rounds until the input ends. A case that the peer does not have is answered with null.

    `import_ms`: CPU from the start of the process until all is imported.
    """
    print(json.dumps({"name": peer.name, "durability": peer.durability, "import_ms": import_ms}), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        print(json.dumps(_round(peer, asked["case"], asked["size"], asked["times"])), flush=True)


def cpu_of(process_id: int) -> float:
    """CPU seconds of another process and of its children, in steps of 10 ms. Linux tells it in /proc."""
    stat = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
    own = (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")
    children = Path(f"/proc/{process_id}/task/{process_id}/children").read_text().split()
    return own + sum(cpu_of(int(child)) for child in children)


def _round(peer: Peer, case: str, size: int, times: int) -> dict[str, float] | None:
    cpu, wall = peer.cpu_seconds(), perf_counter()
    try:
        if case in ("chain", "fan"):
            for _ in range(times):
                (peer.chain if case == "chain" else peer.fan)(size)
            took = perf_counter() - wall
        else:
            once = {"event": peer.event, "late": peer.late, "tail": peer.tail}[case]
            took = sum(once() for _ in range(times))
    except NotImplementedError:
        return None
    each = times * size
    return {"wall_ms": took * 1000 / each, "cpu_ms": (peer.cpu_seconds() - cpu) * 1000 / each}
