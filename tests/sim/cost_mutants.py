"""Mutants of `max_cost`: each breaks one law of open forks, and the simulator must notice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from unittest import mock

from stepwell.engine.limits import spending
from stepwell.runtime.loop.stopping import Stopping


@contextmanager
def branches_cost_nothing() -> Iterator[None]:
    """Nobody looks at the cost before a branch's step."""
    with mock.patch.object(spending, "_of_branch", return_value=None):
        yield


@contextmanager
def unpaused_for_nothing() -> Iterator[None]:
    """A run that was unpaused is paused at the same limit again."""
    with mock.patch.object(spending, "_pauser", side_effect=lambda cap_usd: f"{cap_usd} {next(_numbers)}"):
        yield


@contextmanager
def rests_without_a_pause() -> Iterator[None]:
    """A branch whose run costs too much rests, and the run is not paused."""
    with mock.patch.object(Stopping, "pause", return_value=True):
        yield


_numbers = iter(range(10**9))

OF_COSTS: tuple[Callable[[], AbstractContextManager[None]], ...] = (
    branches_cost_nothing,
    unpaused_for_nothing,
    rests_without_a_pause,
)
