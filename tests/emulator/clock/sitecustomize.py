"""A clock that a test can move. Python loads this module first in every process of the emulator, its functions' too.

How far it is ahead, in seconds, is the modification time of the file that STEPWELL_TEST_CLOCK names.
"""

from __future__ import annotations

import os
import time

_file = os.environ["STEPWELL_TEST_CLOCK"]
_time, _time_ns = time.time, time.time_ns


def _ahead() -> int:
    return int(os.stat(_file).st_mtime)


time.time = lambda: _time() + _ahead()
time.time_ns = lambda: _time_ns() + _ahead() * 1_000_000_000
