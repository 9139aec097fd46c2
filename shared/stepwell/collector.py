"""The garbage collector of a process that serves for long."""

from __future__ import annotations

import gc

YOUNG = 50_000  # containers made and kept since the last look, before the collector looks again


def relax_collector() -> None:
    """Has the collector pass over what the process has set up, and look less often at what it makes.

    Call it once, when the process is ready to serve. A fork of a thousand makes a hundred thousand values, none
    of them in a cycle. By Python's own thresholds the collector walked through the whole process several times
    meanwhile, which took a fifth of the fork's CPU.
    """
    gc.freeze()
    gc.set_threshold(YOUNG, 20, 100)
