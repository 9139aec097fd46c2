"""Sleeps, deadlines and time-outs on every other backend."""

from __future__ import annotations

from tests.runtime.test_time import *  # noqa: F403 - its tests

del test_thirty_days_of_sleep_and_three_approvals_take_less_than_fifty_milliseconds  # noqa: F821 - a figure of memory's
