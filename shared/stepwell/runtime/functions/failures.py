"""What a durable function can catch: the operation that it awaited has failed."""

from __future__ import annotations

from stepwell.definition.graph import Json
from stepwell.engine.records import Failure


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
    """A step raised, or ran out of time, and was not tried again."""


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
