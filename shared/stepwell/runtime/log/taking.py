"""Taking: the result that a step of a redriven run has in the run that failed, in whose log it was completed."""

from __future__ import annotations

from stepwell.engine.actions import Outcome, RunStep
from stepwell.engine.records import Failure
from stepwell.runtime.log.logbook import Logbook


async def taken(logbook: Logbook, action: RunStep) -> Outcome:
    """Returns the outcome of the step at the place that the action names. Without the record there, it is a failure."""
    run_id, _, place = action.taken.partition(":")
    token, _, slot = place.partition("@")
    found = await logbook.history(run_id, token, int(slot) - 1, 1)
    if found:
        return Outcome(found[0].output, started_ms=action.at_ms, is_taken=True)
    message = f"{action.node} completed in {run_id}, which was deleted: its result is gone"
    failure = Failure("result_gone", "validation", message, action.node, action.attempt)
    return Outcome(failure=failure, started_ms=action.at_ms)
