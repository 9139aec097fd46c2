"""Serves one call: finds the operation that `X-Amz-Target` names, reads what is asked, and answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from stepwell.api.exchange import Call
from stepwell.api.step_functions import asked, executions, histories, machines, tasks
from stepwell.api.step_functions.refusals import Refused
from stepwell.definition.graph import Json

SERVICE = "AWSStepFunctions."

Serve = Callable[[Call, Any], Awaitable[dict[str, Json]]]
OPERATIONS: Mapping[str, tuple[type[asked.Asked], Serve]] = {
    "StartExecution": (asked.Started, executions.start),
    "StartSyncExecution": (asked.StartedSync, executions.start_sync),
    "DescribeExecution": (asked.Described, executions.describe),
    "GetExecutionHistory": (asked.History, histories.history),
    "ListExecutions": (asked.Executions, executions.list_executions),
    "StopExecution": (asked.Stopped, executions.stop),
    "ListStateMachines": (asked.Machines, machines.list_machines),
    "DescribeStateMachine": (asked.Machine, machines.describe_machine),
    "SendTaskSuccess": (asked.TaskDone, tasks.succeed),
    "SendTaskFailure": (asked.TaskFailed, tasks.fail),
    "SendTaskHeartbeat": (asked.TaskBeat, tasks.beat),
}


async def serve(call: Call) -> dict[str, Json]:
    """Answers the call. Raises Refused, UserError."""
    target = call.headers.get("x-amz-target", "")
    name = target.removeprefix(SERVICE)
    if name not in OPERATIONS or name == target:
        raise Refused("UnknownOperationException", f"{target[:100]!r} is not served here; {', '.join(OPERATIONS)} are")
    model, answer = OPERATIONS[name]
    return await answer(call, call.body(model))
