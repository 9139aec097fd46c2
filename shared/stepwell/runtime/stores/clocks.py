"""The clock of the machine, behind the Clock port."""

from __future__ import annotations

import time


class RealClock:
    """The machine's clock. `sleep_ms` blocks its thread: no adapter but the simulator's suspends."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    async def sleep_ms(self, duration_ms: int) -> None:
        time.sleep(max(duration_ms, 0) / 1_000)
