"""The errors that Stepwell raises, with a stable code: what happened, what was expected, and what to do.

The classes follow the cause: `UserError` (a definition, a request, an input), `StepError` and its children (raised by
step code to choose the category), `PortError` (an outside service did not answer).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from stepwell.values import dataclass


class StepwellError(Exception):
    """The base of all errors. `code` is stable, for programs to match and people to search."""

    code = "stepwell_error"

    def __init__(self, message: str, *, code: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        if code is not None:
            self.code = code

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake in a user's file, with its place. `path` is a JSON pointer; line and column count from 1."""

    code: str
    message: str
    path: str = ""
    hint: str = ""
    file: str = ""
    line: int = 0
    column: int = 0
    severity: str = "error"  # error | warning
    workflow: str = ""  # in whose definition it is, where that is known

    @property
    def place(self) -> str:
        """Returns file:line:column, as far as they are known."""
        return ":".join(str(part) for part in (self.file, self.line, self.column) if part)

    def __str__(self) -> str:
        hint = f"\n    hint: {self.hint}" if self.hint else ""
        return f"{self.place + ': ' if self.place else ''}{self.severity} {self.code}: {self.message}{hint}"


class UserError(StepwellError):
    """The request cannot be accepted. Nothing was written."""

    code = "bad_request"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        hint: str | None = None,
        problems: tuple[Problem, ...] = (),
    ) -> None:
        super().__init__(message, code=code, hint=hint)
        self.problems = problems


class DefinitionError(UserError):
    """A workflow definition that cannot be compiled; `problems` lists every mistake found."""

    code = "bad_definition"


class InvalidInput(UserError):
    """A value that its schema or a limit refuses."""

    code = "invalid_input"


class NotFound(UserError):
    """A run, workflow or step of that name does not exist."""

    code = "not_found"


class Conflict(UserError):
    """The run's state does not allow the request."""

    code = "conflict"


class RunDeleted(Conflict):
    """The run was deleted a moment ago. Its id is refused until nobody can work for that run any more."""


class ExpressionError(StepwellError):
    """An expression could not be evaluated, which is a `validation` error of its node."""

    code = "bad_expression"


class KeptFailure(ExpressionError):
    """A node fails with a failure that came before it: `failure`, as expressions see it."""

    def __init__(self, failure: Mapping[str, Any]) -> None:
        super().__init__(failure["message"], code=failure["type"])
        self.failure = failure


class PortError(StepwellError):
    """A store, queue or timer did not answer, or its answer was lost; the message is delivered again."""

    code = "unavailable"


class LeaseLost(PortError):
    """The worker's message was handed to another worker, so it writes nothing more."""

    code = "lease_lost"


class EngineFault(StepwellError):
    """An invariant of the engine would be broken: a defect of Stepwell, never of a workflow."""

    code = "engine_fault"


class NewerFormat(StepwellError):
    """Newer code wrote this data: the message that needs it is put off, until newer code handles it."""

    code = "newer_format"


class Cancelled(BaseException):
    """Raised in a durable function at its current await when the run is cancelled. `except Exception` misses it."""


class StepError(Exception):
    """The base of errors that step code raises to choose a category. The class name is the error's type."""

    category = "step"

    def __init__(self, message: str = "", data: object = None) -> None:
        super().__init__(message)
        self.data = data


class Transient(StepError):
    """A temporary failure, retried by the step's policy, and not before `retry_after`.

    `retry_after`: seconds, a timedelta, or the text of the header Retry-After (seconds or an HTTP date).
    """

    category = "transient"

    def __init__(
        self, message: str = "", data: object = None, *, retry_after: float | timedelta | str | None = None
    ) -> None:
        super().__init__(message, data)
        self.retry_after = retry_after


class External(StepError):
    """A failure of an outside system, retried only if the policy's `on` names it."""

    category = "external"


class Blocked(StepError):
    """A governance block: the step continues only after a person approves."""

    category = "governance"


class Invalid(StepError):
    """A wrong input or output of the step, never retried."""

    category = "validation"
