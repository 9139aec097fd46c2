"""What a durable function can catch: the operation that it awaited has failed."""

from __future__ import annotations

from stepwell.definition.graph import Json
from stepwell.engine.records import Failure
from stepwell.engine.transact import INVALID, REFUSED
from stepwell.engine.turns import Asked


class OperationFailed(Exception):
    """What was awaited has failed, its retries included. Uncaught, it is the run's error, as it is."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure

    @property
    def type(self) -> str:
        """The class name of what a step raised, or a code of ours."""
        return self.failure.type

    @property
    def category(self) -> str:
        """A row of the table of error categories."""
        return self.failure.category

    @property
    def data(self) -> Json:
        """What a StepError carried, or a rejection said."""
        return self.failure.data


class StepFailed(OperationFailed):
    """A step raised, or ran out of time, and was not tried again. Where it can be, it is the step's exception, too."""


class WaitTimedOut(OperationFailed):
    """What was waited for did not come in time."""


class Rejected(OperationFailed):
    """Somebody said no."""


class ChildFailed(OperationFailed):
    """A child run failed, was cancelled, or could not be started. Caught, it does not fail its parent."""


class TransactionRefused(OperationFailed):
    """A condition of one of a transaction's writes did not hold: nothing of it was written."""

    @property
    def write(self) -> int:
        """Which one: its place among the writes, from 0. -1: it is not known."""
        return self.data["write"] if isinstance(self.data, dict) else -1


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
    from stepwell.runtime.durable.raised import as_itself  # noqa: PLC0415 - pydantic, which the client does without

    return as_itself(failure, StepFailed)


def _is_child(asked: Asked | None) -> bool:
    """Whether it starts runs of other workflows, and does nothing else."""
    from stepwell.engine.children import DETACHED  # noqa: PLC0415 - step code imports this module, and that takes long

    if asked is None:
        return False
    return asked.call is not None or (asked.step is not None and asked.step.run.startswith(DETACHED))
