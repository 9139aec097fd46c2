"""Handlers that pause a workflow, or all of them, and have their runs go on."""

from __future__ import annotations

from stepwell.api.exchange import Answer, Call, Route
from stepwell.api.pauses import pause_view
from stepwell.api.requests import EndBody, NoQuery, StartIdleBody
from stepwell.runtime.ports import EVERY


async def pause_workflow(call: Call) -> Answer:
    return await _pause(call, _named(call))


async def unpause_workflow(call: Call) -> Answer:
    return await _unpause(call, _named(call))


async def pause_all(call: Call) -> Answer:
    return await _pause(call, EVERY)


async def unpause_all(call: Call) -> Answer:
    return await _unpause(call, EVERY)


def _named(call: Call) -> str:
    """Returns the path's workflow. Raises NotFound for `*`, by which the engine means all of them."""
    name = call.path["name"]
    if name == EVERY:
        call.parts.catalog.named(name)  # raises it
    return name


async def _pause(call: Call, workflow: str) -> Answer:
    call.asked(NoQuery)
    body = call.body(EndBody)
    pause, before = await call.parts.workflow_pauses.pause(workflow, body.reason, call.who(body.by))
    return Answer(200, {**pause_view(pause), "paused_before": before})


async def _unpause(call: Call, workflow: str) -> Answer:
    call.asked(NoQuery)
    call.body(StartIdleBody)
    return Answer(200, pause_view(await call.parts.workflow_pauses.unpause(workflow)))


_PAUSED = {200: "the pause, made now or before", 409: "100 workflows are paused already"}
_GOES_ON = {200: "the pause that is over now", 409: "it is not paused"}
_UNKNOWN = {404: "no such workflow"}

PAUSING_ROUTES = (
    Route("POST", "/workflows/{name}/pause", pause_workflow, "Stop all runs of a workflow before their next step",
          {**_PAUSED, **_UNKNOWN}, "WorkflowPausedView", EndBody),
    Route("POST", "/workflows/{name}/unpause", unpause_workflow, "Have the runs of a paused workflow go on",
          {**_GOES_ON, **_UNKNOWN}, "WorkflowPauseView", StartIdleBody),
    Route("POST", "/workflows:pause", pause_all, "Stop all runs of all workflows before their next step",
          _PAUSED, "WorkflowPausedView", EndBody),
    Route("POST", "/workflows:unpause", unpause_all, "Have all runs go on, but of workflows that are paused themselves",
          _GOES_ON, "WorkflowPauseView", StartIdleBody),
)  # fmt: skip
