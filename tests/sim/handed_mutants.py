"""Mutants of delegations and heartbeats: somebody who is not asked hands on, and beats are forgotten."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from stepwell.engine import approvals
from stepwell.engine.waits import callback
from stepwell.runtime.calls.approvals import Approvals


@contextmanager
def handed_on_twice() -> Iterator[None]:
    """Who has handed an approval on may do so again."""

    def asked(token: Any, *arms: int) -> tuple[str, ...]:
        return tuple(part for arm in arms for part in token.parked.arms[arm].parts)

    with mock.patch.object(approvals, "asked", asked):
        yield


@contextmanager
def handed_on_to_nobody() -> Iterator[None]:
    """An approval is handed on, and nothing is written."""
    with mock.patch.object(Approvals, "delegate", mock.AsyncMock(return_value=None)):
        yield


@contextmanager
def beat_forgotten() -> Iterator[None]:
    """What a callback's system has sent to say that it lives changes nothing."""
    with mock.patch.object(callback, "last_beat_ms", return_value=0):
        yield


OF_HANDED = (handed_on_twice, handed_on_to_nobody, beat_forgotten)
