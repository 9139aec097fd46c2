"""Attempts: how the worker runs a step once."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, TypeAlias

from stepwell.definition.authoring import StepDefaults
from stepwell.definition.graph import Step
from stepwell.engine.actions import Outcome, RunStep
from stepwell.engine.children import DETACHED
from stepwell.engine.durable.turns import IN_SESSION, SENDS
from stepwell.engine.names import state_of
from stepwell.engine.records import Failure
from stepwell.engine.retry import Policy, resolve_policy
from stepwell.engine.writing import deadline_ms
from stepwell.errors import PortError, UserError
from stepwell.runtime.log.logbook import Logbook
from stepwell.runtime.log.standing import Standing
from stepwell.runtime.log.tracing import record_span, traceparent
from stepwell.runtime.loop.outputs import Outputs
from stepwell.runtime.loop.perform import Performer
from stepwell.runtime.ports import Ports
from stepwell.runtime.steps.port import StepCall, Steps

Tokens: TypeAlias = Callable[[Standing, RunStep], RunStep]
Late: TypeAlias = Callable[[], Coroutine[Any, Any, None]]


class Attempts:
    """Runs attempts of steps, and what a worker does itself in place of a step."""

    def __init__(
        self, ports: Ports, logbook: Logbook, performer: Performer, steps: Steps, pool: str | None, tokens: Tokens
    ) -> None:
        """`tokens`: puts the token of a step's callback into its input, right before it runs."""
        self._clock, self._logbook, self._performer = ports.clock, logbook, performer
        self._steps, self._pool, self._tokens = steps, pool, tokens
        self._outputs = Outputs(ports.mailbox, ports.clock)

    def policy(self, step: Step) -> Policy:
        """Returns the step's policy. Workers of every pool can do what is no step of users."""
        if is_own(step.run):
            return resolve_policy(replace(step, pool=self._pool), StepDefaults())
        return self._steps.policy(step)

    async def outcome(
        self, at: Standing, action: RunStep, policy: Policy, late_ms: int, late: Late | None
    ) -> Outcome | None:
        """Runs the attempt. None: its durable function does not ask for it now.

        `late`: other work of the worker, which begins if the attempt takes longer than `late_ms`.
        """
        try:
            action = self._tokens(at, action)
        except (UserError, PortError) as error:
            return Outcome(failure=Failure(error.code, "transient", error.message, action.node, action.attempt))
        run = action.step.run
        if not is_own(run):
            return await self._steps.run(self._call(at, action, policy, late_ms, late))
        if run.startswith(DETACHED):
            return await self._performer.children.start_detached(at, action)
        if run.startswith(SENDS):
            return await self._performer.sending.send(at, action)
        return await self._steps.run_in_session(self._call(at, action, policy, late_ms, late), at, self._logbook)

    def _call(self, at: Standing, action: RunStep, policy: Policy, late_ms: int, late: Late | None) -> StepCall:
        timeout_ms, limit_ms = policy.timeout_ms, deadline_ms(at.graph, at.run, at.token)
        if limit_ms is not None:
            timeout_ms = min(timeout_ms, max(limit_ms - self._clock.now_ms(), 1))
        node = action.node if action.undo is None else f"{action.node}.compensate"
        return StepCall(
            run=action.step.run,
            input=action.input,
            run_id=at.run_id,
            workflow=at.run.workflow,
            token=at.token.id,
            node=node,
            attempt=action.attempt,
            key=action.key,
            timeout_ms=timeout_ms,
            resumed=action.resumed,
            read_state=partial(state_of, at.token),
            shown=at.graph.seen_as(node),
            request=action.request,
            trace=_trace(at) if at.header.trace else "",
            emit=self._outputs.of(at, action).emit,
            late_ms=late_ms,
            is_shared=late is not None and not at.is_open,
            late=late,
        )


@lru_cache(1_024)
def is_own(run: str) -> bool:
    """Tells whether this is no step of users: it starts a run, sends an event, or is a part of a durable function."""
    return run.startswith((DETACHED, IN_SESSION, SENDS))


def _trace(at: Standing) -> str:
    """Returns the `traceparent` for the step, of a run whose caller gave one."""
    return traceparent(at.header, record_span(at.run_id, at.token.id, at.token.slot + 1))
