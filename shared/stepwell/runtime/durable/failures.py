"""The exceptions that a durable function can catch when an awaited operation has failed."""

from __future__ import annotations

from stepwell.definition.graph import Json
from stepwell.engine.durable.transact import INVALID, REFUSED
from stepwell.engine.durable.turns import Asked
from stepwell.engine.records import Failure
from stepwell.errors import InvalidInput


class OperationFailed(Exception):
    """An awaited operation failed after its retries. Uncaught, the failure becomes the run's error unchanged."""

    def __init__(self, failure: Failure) -> None:
        if not isinstance(failure, Failure):
            raise InvalidInput(f"{type(self).__name__} tells of an operation that failed", code="bad_value",
                               hint="raise an exception of your own, which fails the run with its name")  # fmt: skip
        super().__init__(failure.message)
        self.failure = failure

    @property
    def type(self) -> str:
        """Returns the class name of the step's exception, or an error code of Stepwell."""
        return self.failure.type

    @property
    def category(self) -> str:
        """Returns the error's category, a row of the table of error categories."""
        return self.failure.category

    @property
    def data(self) -> Json:
        """Returns the data of a StepError or of a rejection."""
        return self.failure.data


class StepFailed(OperationFailed):
    """A step raised or timed out, and is not retried. If possible, this is the step's own exception, too."""


class WaitTimedOut(OperationFailed, TimeoutError):
    """A wait timed out. It is a TimeoutError, too, as that of `asyncio.timeout`."""


class Rejected(OperationFailed):
    """An approval was rejected."""


class ChildFailed(OperationFailed):
    """A child run failed, was cancelled, or could not be started. Caught, it does not fail its parent."""


class TransactionRefused(OperationFailed):
    """The condition of one of a transaction's writes did not hold: nothing was written."""

    @property
    def write(self) -> int:
        """Returns the index of the write whose condition failed, from 0; -1 if it is not known."""
        return self.data["write"] if isinstance(self.data, dict) else -1


_OF_CHILDREN = frozenset({"child_failed", "unknown_workflow"})  # also if they failed in a branch


def raised(failure: Failure, asked: Asked | None = None) -> OperationFailed:
    """Returns the exception for a failed operation, as the function catches it. `asked`: the operation."""
    if failure.type == "rejected":
        return Rejected(failure)
    if failure.type == REFUSED:
        return TransactionRefused(failure)
    if failure.type == INVALID:
        return OperationFailed(failure)
    if failure.category == "timeout" and failure.type != "step_timeout":
        return WaitTimedOut(failure)
    if failure.type in _OF_CHILDREN or starts_runs(asked):
        return ChildFailed(failure)
    from stepwell.runtime.durable.raised import as_itself  # noqa: PLC0415 - pydantic, which the client does without

    return as_itself(failure, StepFailed)


def starts_runs(asked: Asked | None) -> bool:
    """Tells whether the operation starts runs of other workflows, and nothing else."""
    from stepwell.engine.children import DETACHED  # noqa: PLC0415 - step code imports this module, and that takes long

    if asked is None:
        return False
    return asked.call is not None or (asked.step is not None and asked.step.run.startswith(DETACHED))
