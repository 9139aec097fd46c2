"""Sets the garbage collector up for a process that serves for long."""

from __future__ import annotations

import gc

YOUNG = 50_000  # how many more containers are made than freed between two collections


def relax_collector() -> None:
    """Exempts what the process has set up from garbage collection, and makes collections rarer.

    Call it once, when the process is ready to serve. A fork of a thousand branches makes a hundred thousand values,
    none of them in a cycle. With Python's own thresholds the collector went through the whole process several times
    meanwhile, which took a fifth of the fork's CPU.
    """
    gc.freeze()
    gc.set_threshold(YOUNG, 20, 100)
