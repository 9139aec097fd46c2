"""Answered steps: their result comes by a callback, whose token is in their input.

    runs ── returns ──────▶ STEP, pause for the callback ──▶ waits ── the callback ──▶ its result, or its error
         └─ fails ────────▶ STEP, pause of 0 ms ───────────▶ waits ── the callback, if it came before the failure
                                                                  └─ else the failure

The second way is for a worker that dies after the callback came: the step runs again, and may fail because its token
has been used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from stepwell.definition.graph import Json, Step
from stepwell.engine.actions import Outcome, RunStep
from stepwell.engine.names import Moment
from stepwell.engine.records import ALONE, Pause
from stepwell.engine.retry import Policy
from stepwell.engine.routing import Ended, again
from stepwell.engine.token import Token
from stepwell.limits import STEP_TIMEOUT_MS


def limited(step: Step, names: Mapping[str, Json]) -> Step:
    """Returns the step with the limits of this attempt. Raises ExpressionError."""
    if step.limits is None:
        return step
    found = {name: int(seconds * 1000) for name, seconds in step.limits.evaluate(names).items()}
    timeout_ms = found.get("timeout", step.timeout_ms)
    if step.callback is None:
        return replace(step, timeout_ms=timeout_ms)
    beat_ms = found.get("heartbeat", step.callback.heartbeat_ms)
    wait = replace(step.callback, timeout_ms=found.get("timeout", step.callback.timeout_ms), heartbeat_ms=beat_ms)
    runs_ms = None if timeout_ms is None else min(timeout_ms, STEP_TIMEOUT_MS)
    return replace(step, timeout_ms=runs_ms, callback=wait)


def pause_for(moment: Moment, token: Token, action: RunStep, outcome: Outcome, policy: Policy | None) -> Pause | None:
    """Returns the pause for the callback of this step; None if it has none, or runs again with the same token."""
    wait, failure = action.step.callback, outcome.failure
    if wait is None or outcome.is_taken or not action.key:
        return None
    if failure is None:
        passed_ms = max(moment.now_ms - outcome.started_ms, 0)
        left_ms = None if wait.timeout_ms is None else max(wait.timeout_ms - passed_ms, 0)
        return Pause(wait.kind, timeout_ms=left_ms, then=ALONE, heartbeat_ms=wait.heartbeat_ms)
    ended = Ended(action.node, action.attempt, failure=failure, policy=policy)
    if failure.category == "governance" or again(moment, token, ended, failure) is not None:
        return None
    return Pause(wait.kind, timeout_ms=0, then=ALONE, failing=failure)
