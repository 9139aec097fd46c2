"""Mutants of the wait for code: each takes a part of it away, and the simulator must notice."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

from stepwell.engine import attempts, decide
from stepwell.engine.actions import Outcome
from stepwell.engine.token import Token
from stepwell.runtime.log.door import Budget
from stepwell.runtime.log.messages import Deployed, Message
from stepwell.runtime.loop.coordinator import Coordinator

_commit = attempts.commit
_handle = Coordinator.handle


@contextmanager
def bad_code_fails() -> Iterator[None]:
    """Code that cannot be loaded is a failure of the step."""

    def commit(moment: Any, token: Token, action: Any, outcome: Outcome, policy: Any) -> Any:
        return _commit(moment, token, action, replace(outcome, is_stuck=False), policy)

    with mock.patch.object(decide, "commit", commit):
        yield


@contextmanager
def deploy_untold() -> Iterator[None]:
    """A deploy wakes nobody."""

    async def handle(self: Coordinator, message: Message, budget: Budget) -> None:
        if not isinstance(message, Deployed):
            await _handle(self, message, budget)

    with mock.patch.object(Coordinator, "handle", handle):
        yield


OF_CODE = (bad_code_fails, deploy_untold)
