"""From the failure of an operation to the exception that its function meets."""

from __future__ import annotations

from stepwell.engine.children import DETACHED
from stepwell.engine.records import Failure
from stepwell.engine.transact import INVALID, REFUSED
from stepwell.engine.turns import Asked
from stepwell.runtime.functions.failures import (
    ChildFailed,
    OperationFailed,
    Rejected,
    StepFailed,
    TransactionRefused,
    WaitTimedOut,
)

_OF_CHILDREN = frozenset({"child_failed", "unknown_workflow"})  # also where they failed in a branch


def raised(failure: Failure, asked: Asked | None = None) -> OperationFailed:
    """The failure of an operation as its function meets it. `asked`: the operation."""
    if failure.type == "rejected":
        return Rejected(failure)
    if failure.type == REFUSED:
        return TransactionRefused(failure)
    if failure.type == INVALID:
        return OperationFailed(failure)
    if failure.category == "timeout" and failure.type != "step_timeout":
        return WaitTimedOut(failure)
    if failure.type in _OF_CHILDREN or _is_child(asked):
        return ChildFailed(failure)
    return StepFailed(failure)


def _is_child(asked: Asked | None) -> bool:
    """Whether it starts runs of other workflows, and does nothing else."""
    if asked is None:
        return False
    return asked.call is not None or (asked.step is not None and asked.step.run.startswith(DETACHED))
