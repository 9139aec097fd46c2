"""Runs the steps of Stepwell's own workflows, and passes all others on to users' code."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from stepwell.definition.authoring import StepDefaults
from stepwell.definition.graph import Json, Step
from stepwell.engine.actions import Outcome
from stepwell.engine.records import Record
from stepwell.engine.retry import Policy, resolve_policy
from stepwell.runtime.log.logbook import Logbook
from stepwell.runtime.log.standing import Standing
from stepwell.runtime.steps.port import StepCall, Steps, Updated, WriteRecord


class OwnSteps:
    """Users' steps, and those of Stepwell's own workflows by the workflow's name."""

    def __init__(self, users: Steps, own: Mapping[str, Callable[[StepCall], Awaitable[Outcome]]]) -> None:
        self._users, self._own = users, own

    def policy(self, step: Step) -> Policy:
        return resolve_policy(step, StepDefaults()) if step.run in self._own else self._users.policy(step)

    def run(self, call: StepCall) -> Awaitable[Outcome]:
        # Compare the workflow too: a durable function may give its steps any name.
        own = self._own.get(call.run) if call.workflow == call.run else None
        return own(call) if own is not None else self._users.run(call)

    async def run_in_session(self, call: StepCall, at: Standing, logbook: Logbook) -> Outcome | None:
        return await self._users.run_in_session(call, at, logbook)

    async def asked(self, at: Standing, logbook: Logbook) -> Standing:
        return await self._users.asked(at, logbook)

    async def answered(self, at: Standing, logbook: Logbook, query: str) -> Json:
        return await self._users.answered(at, logbook, query)

    async def updated(self, at: Standing, logbook: Logbook, asked: Record, write: WriteRecord) -> Updated:
        return await self._users.updated(at, logbook, asked, write)
