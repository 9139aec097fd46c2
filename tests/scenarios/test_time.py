"""Sleeps, deadlines and time-outs on every other backend."""

from __future__ import annotations

from tests.runtime.test_time import *  # noqa: F403 - its tests

del test_thirty_days_of_sleep_and_three_approvals_take_no_more_work_than_as_many_seconds  # noqa: F821 - it counts in memory
