"""The errors Stepwell raises: each says what happened, what was expected and what to do, under a stable code.

Divided by whose fault it is: `UserError` (a definition, a request, an input), `StepError` and its children
(raised by step code to say what kind of failure it met), `PortError` (the world outside did not answer).
"""

from __future__ import annotations

from dataclasses import dataclass


class StepwellError(Exception):
    """Root of all errors. `code` is stable: programs match on it, people search for it."""

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
    """One thing wrong in what a user wrote: where, and what. `path` is a JSON pointer; line and column count from 1."""

    code: str
    message: str
    path: str = ""
    hint: str = ""
    file: str = ""
    line: int = 0
    column: int = 0
    severity: str = "error"  # error | warning

    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.file, self.line, self.column) if part)
        hint = f"\n    hint: {self.hint}" if self.hint else ""
        return f"{place + ': ' if place else ''}{self.severity} {self.code}: {self.message}{hint}"


class UserError(StepwellError):
    """What came in cannot be accepted. Nothing was written."""

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
    """A value that its schema, or the limits, refuse."""

    code = "invalid_input"


class NotFound(UserError):
    """A run, workflow or step of that name does not exist."""

    code = "not_found"


class Conflict(UserError):
    """The run is not in a state in which this can be done."""

    code = "conflict"


class ExpressionError(StepwellError):
    """An expression that could not be evaluated: a `validation` error of its node."""

    code = "bad_expression"


class PortError(StepwellError):
    """A store, queue or timer did not answer, or its answer is unknown; the message is delivered again."""

    code = "unavailable"


class LeaseLost(PortError):
    """The worker's message was handed to another worker, so it writes nothing more."""

    code = "lease_lost"


class EngineFault(StepwellError):
    """A law of the engine would have been broken: a defect of Stepwell, never of a workflow."""

    code = "engine_fault"


class NewerFormat(StepwellError):
    """Newer code wrote this data: the message that needs it is put off, until newer code handles it."""

    code = "newer_format"


class Cancelled(BaseException):
    """Raised where a durable function awaits something and its run is cancelled. No `except Exception` catches it."""


class StepError(Exception):
    """Base of what step code raises to choose its error category. Its class name is the error's type."""

    category = "step"

    def __init__(self, message: str = "", data: object = None) -> None:
        super().__init__(message)
        self.data = data


class Transient(StepError):
    """Worth another try: retried by the step's policy."""

    category = "transient"


class External(StepError):
    """A system outside failed. Retried only if the policy's `on` names it."""

    category = "external"


class Blocked(StepError):
    """Governance: the step may not go on until a person approves."""

    category = "governance"


class Invalid(StepError):
    """The step's input or output is wrong; never retried."""

    category = "validation"
